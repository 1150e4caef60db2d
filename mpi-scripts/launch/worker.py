# SPDX-License-Identifier: Apache-2.0
"""What each rank of a run with --log_dir executes: its own program, whose output goes to a file of its own, line by line.

WORKER is a script for bash, so that other hosts need nothing of the launcher's: bash -c WORKER NAME FOLDER new|append PROGRAM…
It becomes the program, which therefore gets all signals itself. Before, it starts two processes that write the lines of both
streams to FOLDER/workerlog.RANK, each behind its time, rank and host. They have a session of their own, so that the end of the
rank does not end them before the last line; they end with the stream, or a second after the rank if somebody else keeps it open.
Rank 0's lines are also shown, and of the other ranks what the program says about errors: lines that begin with its name, and what
explains them. LOCKSTEP_OWN_LOG tells the program that it has a log of its own.
"""
from launch.options import NAME

# bash -c LINES NAME PID RANK LOG WHICH PROGRAM
LINES = r'''
trap "" HUP INT TERM USR1 USR2 PIPE
export TZ=UTC0
exec 3>>"$3"
complained=
complain() {
  [ -z "$complained" ] || return
  complained=yes
  why=$(printf "\n" 2>&1 >&3)
  printf "@NAME@: warning: rank %s on %s: cannot write %s%s; free space on this file system, or choose another --log_dir. %s\n" \
    "$2" "$HOSTNAME" "$3" "${why:+: ${why##*: }}" "The run goes on, and this log lacks lines" >&2
}
write() {
  now=${EPOCHREALTIME:-$(date +%s.%N)}
  printf "%(%FT%T)T.%.3sZ rank %s on %s: %s\n" "${now%[.,]*}" "${now#*[.,]}" "$2" "$HOSTNAME" "$line" 2>/dev/null >&3 || complain "$@"
  if [[ $4 == all || $line == "$5: "* || $line == "  | "* ]]; then printf "%s\n" "$line" 2>/dev/null; fi
}
rest=
while :; do
  if IFS= read -r -t 1 line; then
    line=$rest$line
    rest=
    write "$@"
  else
    code=$?
    rest+=$line
    if ((code <= 128)) || ! kill -0 "$1" 2>/dev/null; then break; fi
  fi
done
line=$rest
[ -z "$line" ] || write "$@"
'''

WORKER = r'''
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
log=$1/workerlog.$rank
fail() {
  printf "@NAME@: rank %s on %s: io: cannot write %s: %s; choose a --log_dir that can be written\n" "$rank" "$HOSTNAME" "$1" "${2##*: }" >&2
  exit 1
}
why=$(mkdir -p "$1" 2>&1) || fail "$1" "$why"
why=$( (: >>"$log") 2>&1) || fail "$log" "$why"
[ "$2" = append ] || : >"$log"
shift 2
shown=errors
[ "$rank" != 0 ] || shown=all
export LOCKSTEP_OWN_LOG=1
lines() { exec setsid bash -c "$script" lines "$@"; }
script='@LINES@'
exec > >(lines $$ "$rank" "$log" "$shown" "${1##*/}") 2> >(lines $$ "$rank" "$log" "$shown" "${1##*/}" >&2)
exec "$@"
'''.replace("@LINES@", LINES).replace("@NAME@", NAME)
