#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When launch.sh starts a failed run again, where and how: restarts_test.py ROOT READER

The launcher and train are scripts, which note how they were started, and end as they are told. READER is the train that reads the options for them.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, READER = pathlib.Path(sys.argv[1]), sys.argv[2]
HOST = os.uname().nodename
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "mpi-scripts"))
from launch import cause  # noqa: E402

MPIRUN = """#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
echo "$1 $2 $3 $4" >>launches
while [[ $1 != */train && $1 != bash ]]; do shift; done
exec "$@"
"""
# Ends by the next word of the file "plan": a code, behind an error of a rank; or "death HOST", as mpirun reports it.
TRAIN = """#!/bin/bash
echo "$*" >>starts
line=$(sed -n "$(wc -l <starts)p" plan)
set -- $line
[ -z "$SAVES" ] || mkdir -p "$SAVES/checkpoints/step-0000000$(wc -l <starts)"
case $1 in
  sleep) trap 'exit 143' TERM; for ((i = 0; i < 100; ++i)); do sleep 0.1; done ;;
  death) echo "mpirun noticed that process rank $3 with PID 7 on node $2 exited on signal 9 (Killed)." >&2; exit 137 ;;
  everywhere) echo "train: rank 0 on h1: io: DIR does not exist ($2 ranks 0 1 2 3)" >&2; exit 1 ;;
  linger) echo "mpirun noticed that process rank 1 with PID 7 on node h1 exited on signal 9 (Killed)." >&2
          exec python3 -ISc 'import os, time; os.fork() or os._exit(0); time.sleep(60)' ;; # and leaves a zombie
  pause) sleep 0.3 ;;
  input) cat; for stream in 0 1 2; do [ -e "/proc/$$/fd/$stream" ] || exit 9; done ;;
  leave) sleep 30 & echo $! >child; echo "last words"; printf "without a newline"; kill -KILL $$ ;;
  explain)
     echo "epoch 1"
     echo "train: rank 0 on h1: transport: lost (peer rank 1)" >&2
     for i in 1 2 3 4 5 6; do echo "  | frame of rank 0" >&2; done
     echo "train: rank 1 on $HOSTNAME: io: no space left" >&2
     for i in 1 2 3 4 5 6; do echo "  | frame of rank 1" >&2; done
     sleep 0.3; echo BOX >&2; exit 1 ;;
  full)
     echo "train: no checkpoint of step 8: no space left; training goes on" >&2
     sleep 0.3; echo BOX >&2; printf "  Process name: [[1,1],0]\n  Exit code:    5\n" >&2; exit 5 ;;
  usage) printf "train: --bacth: none\n  --foo: none\n" >&2; sleep 0.3; echo BOX >&2; exit 2 ;;
  0) ;;
  *) echo "train: rank 0 on h1: transport: lost (peer rank 1)" >&2
     echo "train: rank 1 on h2: io: no space left after $RANDOM bytes" >&2; exit "$1" ;;
esac
"""


class Restarts(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        for name, text in (("mpirun", MPIRUN), ("train", TRAIN)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def command(self, line):
        script = "supervise.sh" if line.startswith("supervise") else "launch.sh"
        words = line.replace("mpirun", str(self.folder / "mpirun")).replace("train", str(self.folder / "train")).split()
        return [ROOT / "mpi-scripts" / script, *(words[1:] if script == "supervise.sh" else words)]

    def environment(self, **variables):
        return os.environ | {"MPIEXEC": str(self.folder / "mpirun"), "OMP_NUM_THREADS": "1",
                             "PATH": f"{os.path.dirname(READER)}:{os.environ['PATH']}"} | variables

    def start(self, line, *plan, **variables):
        """@return the result, and the arguments of train at each start"""
        (self.folder / "plan").write_text("\n".join(map(str, plan)) + "\n")
        result = subprocess.run(self.command(line), cwd=self.folder, env=self.environment(**variables), capture_output=True, text=True, timeout=100)
        return result, (self.folder / "starts").read_text().replace(str(self.folder) + "/", "").splitlines()

    def launches(self):
        return (self.folder / "launches").read_text().splitlines()

    def test_goes_on_from_the_last_checkpoint(self):
        result, starts = self.start("--max_restart 3 -n 2 train --save-dir run --steps 9", 1, 1, 0, SAVES="run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(starts, ["--steps 9 --save-dir run"] + ["--steps 9 --save-dir run --resume auto"] * 2)
        self.assertIn("restart 1 of 3", result.stderr)

    def test_another_runs_checkpoints_are_left_alone(self):
        (self.folder / "run/checkpoints/step-00000001").mkdir(parents=True)
        result, starts = self.start("--max_restart 1 -n 2 train --save-dir run", 1, 0)
        self.assertEqual((result.returncode, starts), (0, ["--save-dir run-2", "--save-dir run-2"]))

    def test_a_run_that_continues_does_so_again(self):
        (self.folder / "run/checkpoints/step-00000001").mkdir(parents=True)
        _, starts = self.start("--max_restart 1 -n 2 train --save-dir run --resume best --steps 9", 1, 0)
        self.assertEqual(starts, ["--save-dir run --resume best --steps 9", "--steps 9 --save-dir run --resume auto"])

    def test_a_crash_loop_ends_with_its_cause_first(self):
        result, starts = self.start("--max_restart 9 -n 2 train", *[1] * 9)
        self.assertEqual((result.returncode, len(starts)), (1, 3), result.stderr)
        last = result.stderr.splitlines()[-1]
        self.assertRegex(last, "^lockstep-launch: rank 1 on h2: io: no space left after .*3 starts in a row ended like this, without a new checkpoint")

    def test_progress_is_no_crash_loop(self):
        result, starts = self.start("--max_restart 4 -n 2 train --save-dir run", 1, 1, 1, 1, 0, SAVES="run")
        self.assertEqual((result.returncode, len(starts)), (0, 5), result.stderr)

    def test_a_launcher_that_does_not_end_after_its_ranks_is_ended(self):
        begin = time.monotonic()
        result, starts = self.start("--max_restart 3 -n 2 train --save-dir run", "linger", 0, SAVES="run")
        self.assertEqual((result.returncode, len(starts)), (0, 2), result.stderr)
        self.assertRegex(result.stderr, "(?m)^lockstep-launch: .*mpirun has not ended 10 s after all that it started, and is ended$")
        self.assertLess(time.monotonic() - begin, 40)

    def test_options_by_other_names_are_not_given_twice(self):
        (self.folder / "run.yml").write_text("output_dir: 'run'  # the folder\n")
        result, starts = self.start("--max_restart 2 -n 2 train -o seed=3 -c run.yml -r auto", 1, 0, SAVES="run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(starts[-1], "--seed 3 --config run.yml --save-dir run --resume auto")

    def test_the_limit(self):
        result, starts = self.start("--max_restart 1 -n 2 train --save-dir run", 1, 1, 0)
        self.assertEqual((result.returncode, len(starts)), (1, 2))
        self.assertIn("--max_restart 1 allows no further one", result.stderr)

    def test_what_is_not_started_again(self):
        for code in (0, 2, 3, 5):
            with self.subTest(code=code):
                result, starts = self.start("--max_restart 3 -n 2 train", code, 0)
                self.assertEqual((result.returncode, len(starts)), (code, 1))
                (self.folder / "starts").unlink()

    def send(self, number, *before):
        """Sends a signal to the group of a running launcher, as a terminal does. @param before  words of its command. @return the launcher"""
        (self.folder / "starts").unlink(missing_ok=True)
        (self.folder / "plan").write_text("sleep\n0\n")
        job = subprocess.Popen([*before, *map(str, self.command("--max_restart 3 -n 2 train"))], cwd=self.folder, env=self.environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        while not (self.folder / "starts").exists():
            time.sleep(0.05)
        time.sleep(0.3)
        os.killpg(job.pid, number)
        return job

    def expect_ended(self, job, code):
        self.assertEqual(job.wait(60), code)
        self.assertEqual(len((self.folder / "starts").read_text().splitlines()), 1)

    def test_sigterm_and_sighup_end_it(self):
        self.expect_ended(self.send(signal.SIGTERM), 143)
        self.expect_ended(self.send(signal.SIGHUP), 143)  # the launcher of MPI gets SIGTERM, and nothing from the terminal

    def test_sigusr1_makes_no_failure_of_a_run_that_ends(self):
        (self.folder / "plan").write_text("pause\n")
        job = subprocess.Popen(list(map(str, self.command("-n 2 train"))), cwd=self.folder, env=self.environment())
        while job.poll() is None:
            if (self.folder / "starts").exists():
                job.send_signal(signal.SIGUSR1)
            time.sleep(0.001)
        self.assertEqual(job.returncode, 0)

    def test_nohup_outlives_the_terminal(self):
        job = self.send(signal.SIGHUP, "nohup")
        time.sleep(0.5)
        self.assertIsNone(job.poll())
        job.terminate()
        self.expect_ended(job, 143)

    def test_the_command_ends_with_a_launcher_that_is_killed(self):
        job = self.send(signal.SIGKILL)
        self.assertEqual(job.wait(), -signal.SIGKILL)
        self.assertTrue(self.becomes_true(lambda: not self.processes(str(self.folder / "train"))))

    def test_input_is_left_to_a_loop_around_it(self):
        (self.folder / "plan").write_text("input\ninput\n")
        command = " ".join(map(str, self.command("-n 1 train")))
        for script in (f"printf '1\\n2\\n' | while read -r n; do {command} || exit 1; done", f"{command} 0<&- 1>&- 2>&-"):
            (self.folder / "starts").unlink(missing_ok=True)
            result = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=60)
            starts = (self.folder / "starts").read_text().splitlines()
            self.assertEqual((result.returncode, result.stdout, len(starts)), (0, "", 2 if "while" in script else 1), result.stderr)

    def test_a_host_that_fails_twice_is_left_out(self):
        result, _ = self.start("supervise -- mpirun -H h1:2,h2:2 -np 4 train", "death h2 3", "death h2 2", 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.launches(), ["-H h1:2,h2:2 -np 4"] * 2 + ["-H h1:2 -np 2"])
        self.assertIn("h2 failed 2 times or cannot be reached, and is left out: 2 ranks train on, with the same global batch", result.stderr)
        self.assertIn("lockstep-launch: rank 3 on h2 was ended by SIGKILL", result.stderr)

    def test_no_host_is_blamed_for_what_all_ranks_miss(self):
        for word in ("peer", "on"):
            result, _ = self.start("supervise --max-restarts 2 -- mpirun -H h1:2,h2:2 -np 4 train", *[f"everywhere {word}"] * 3)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(self.launches(), ["-H h1:2,h2:2 -np 4"] * 3)
            for file in ("launches", "starts"):
                (self.folder / file).unlink()

    def test_too_few_ranks(self):
        result, starts = self.start("supervise --min-ranks 3 --max-restarts 5 -- mpirun -H h1:2,h2:2 -np 4 train", *["death h2 3"] * 3)
        self.assertEqual((result.returncode, len(starts)), (137, 2), result.stderr)
        self.assertIn("2 ranks are left, and --min_ranks asks for 3", result.stderr)

    def test_the_cause_is_named_first_and_once(self):
        result, _ = self.start("-n 2 train", 1)
        lines = result.stderr.splitlines()
        self.assertRegex(lines[0], "^train: rank 1 on h2: io: no space left")
        self.assertRegex(lines[1], "^train: rank 0 on h1: transport")
        self.assertEqual(len(lines), 2, result.stderr)

    def test_what_explains_a_cause_stays_with_it_and_ends_with_it(self):
        result, _ = self.start("-n 2 train", "explain")
        lines = result.stderr.splitlines()
        self.assertEqual(lines[0], "BOX", "what mpirun prints comes first")
        self.assertEqual(lines[1:8], [f"train: rank 1 on {HOST}: io: no space left"] + ["  | frame of rank 1"] * 6)
        self.assertEqual(lines[8:], ["train: rank 0 on h1: transport: lost (peer rank 1)"] + ["  | frame of rank 0"] * 6 +
                         [f"lockstep-launch: rank 1 on {HOST}: io: no space left"])

    def test_further_mistakes_of_a_command_line_stay_below_the_first(self):
        result, _ = self.start("-n 2 train", "usage")
        self.assertEqual(result.stderr.splitlines(), ["BOX", "train: --bacth: none", "  --foo: none"])

    def test_a_warning_does_not_come_after_the_run(self):
        result, _ = self.start("-n 2 train", "full")
        lines = result.stderr.splitlines()
        self.assertEqual(lines[:2], ["train: no checkpoint of step 8: no space left; training goes on", "BOX"])
        self.assertRegex(lines[-1], "^lockstep-launch: rank 0 ended with exit code 5: the final state is in no checkpoint")

    def test_a_log_that_cannot_be_written(self):
        for name in ("file", "starts"):
            (self.folder / name).touch()
        result, starts = self.start("--log_dir file -n 1 train", 0)
        self.assertEqual((result.returncode, starts), (1, []))
        self.assertRegex(result.stderr, rf"^lockstep-launch: rank 0 on {HOST}: io: cannot write \S+/file: File exists; choose a --log_dir")
        (self.folder / "full").mkdir()
        (self.folder / "full/workerlog.0").symlink_to("/dev/full")
        result, _ = self.start("--log_dir full -n 1 train", 1)
        self.assertEqual(result.stderr.count("warning:"), 1, result.stderr)
        self.assertRegex(result.stderr, rf"warning: rank 0 on {HOST}: cannot write \S+/workerlog.0: No space left on device; free space")

    def test_no_line_is_shown_twice(self):
        """Rank 1 says why it failed, which is in its log, too."""
        result, _ = self.start("--log_dir log -n 1 train", "explain", OMPI_COMM_WORLD_RANK="1")
        lines = result.stderr.splitlines()
        self.assertEqual(lines.count("  | frame of rank 1"), 6, result.stderr)
        self.assertRegex(result.stderr, r"the last lines of \S+workerlog.1 on \S+:\n\S+Z rank 1 on \S+: epoch 1\n")
        self.assertLess(result.stderr.index("the last lines of"), result.stderr.index("train: rank 1"))
        self.assertEqual(lines[-1], f"lockstep-launch: rank 1 on {HOST}: io: no space left")

    def test_logs_have_the_last_words_and_their_writers_end_with_the_rank(self):
        """Even if somebody else, such as a child of the rank, keeps its output open."""
        begin = time.monotonic()
        result, _ = self.start("--log_dir log -n 1 train", "leave", OMPI_COMM_WORLD_RANK="0")
        self.assertEqual(result.returncode, 137, result.stderr)
        child = int((self.folder / "child").read_text())
        while self.processes(str(self.folder / "log/workerlog")):
            time.sleep(0.1)
        self.assertTrue(pathlib.Path(f"/proc/{child}").exists(), "the child that keeps the output open has ended before")
        self.assertLess(time.monotonic() - begin, 25)
        os.kill(child, signal.SIGKILL)
        lines = (self.folder / "log/workerlog.0").read_text().splitlines()
        for line, text in zip(lines, ("last words", "without a newline")):
            self.assertRegex(line, rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z rank 0 on {re.escape(HOST)}: {text}$")
        self.assertEqual(len(lines), 2)

    def processes(self, word):
        """Processes whose command line has this part."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if word in process.read_text():
                    found.append(process)
            except OSError:
                pass
        return found

    def becomes_true(self, condition):
        end = time.monotonic() + 20
        while not condition() and time.monotonic() < end:
            time.sleep(0.1)
        return condition()

    def test_mistakes(self):
        for line, message in (("--max_restart x -n 2 train", "--max_restart x: give a number"), ("--min_ranks 0 -n 1 train", "--min_ranks 0: give a number"),
                              ("--max_restart 3 -np 2 mpirun -np 2 train", "-np does not go with a command of mpirun")):
            result = subprocess.run(self.command(line), cwd=self.folder, env=self.environment(), capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr)


class BatchJob(unittest.TestCase):
    def test_a_missing_program_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            variables = {"TRAIN": "/absent/train", "SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "1", "SLURM_CPUS_ON_NODE": "2", "SLURMD_NODENAME": "node7"}
            result = subprocess.run(["bash", str(ROOT / "mpi-scripts/train.sbatch")], cwd=folder, env=os.environ | variables, capture_output=True, text=True)
            self.assertEqual((result.returncode, os.listdir(folder)), (127, []), result.stderr)
            self.assertIn("node7 has no program /absent/train: set the variable TRAIN", result.stderr)


# Does what Slurm and train do near the time limit; the task's log ends with $SAYS.
SRUN = """#!/bin/bash
kill -USR1 "$(cat pid)"
echo "$SAYS" >>runs/train-7/logs/workerlog.0
exit "$CODE"
"""


class Batch(unittest.TestCase):
    """When train.sbatch queues its job again: fake programs of Slurm."""

    def end(self, code, says):
        """@return the finished script, and whether the job was queued again"""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for program, text in (("srun", SRUN), ("train", "#!/bin/sh\n"), ("scancel", "#!/bin/sh\n"), ("scontrol", "#!/bin/sh\necho $1 >requeued\n")):
                (folder / program).write_text(text)
                (folder / program).chmod(0o755)
            slurm = {"SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_CPUS_ON_NODE": "1",
                     "SLURMD_NODENAME": "h1", "CODE": str(code), "SAYS": says, "PATH": f"{folder}:{os.environ['PATH']}"}
            kept = {word: value for word, value in os.environ.items() if not word.startswith("SLURM")}
            result = subprocess.run(["bash", "-c", 'echo $$ >pid; exec bash "$@"', "", ROOT / "mpi-scripts/train.sbatch", "--model", "lenet"], cwd=folder, env=kept | slurm,
                                    capture_output=True, text=True, timeout=100)
            return result, (folder / "requeued").exists()

    def test_a_job_that_was_stopped_in_time_is_queued_again(self):
        for code in (3, 143):
            result, again = self.end(code, "weights sha256 12")
            self.assertTrue(again, result.stdout + result.stderr)

    def test_a_job_that_could_not_save_is_not(self):
        for code in (5, 143):
            result, again = self.end(code, "not saved: no checkpoint has the state after step 8: cannot write 'x': No space left on device")
            self.assertFalse(again, result.stdout)
            self.assertEqual(result.returncode, code)
            self.assertIn("No space left on device\n", result.stdout)
            self.assertIn("not queued again, because train could not save its state", result.stdout)


class Causes(unittest.TestCase):
    """Who is named, from what launchers print and from the lines of the ranks."""

    def expect(self, text, lines, launcher_text):
        found = cause.find(lines, launcher_text)
        self.assertEqual(found.text if found else None, text)

    def test_launchers(self):
        self.expect("rank 1 on h2 was ended by SIGSEGV", [], "mpirun noticed that process rank 1 with PID 12 on node h2 exited on signal 11 (Segmentation fault).")
        self.expect("rank 3 on h2 was ended by SIGKILL", [], "prterun noticed that process rank 3 with PID 12 on node h2 exited on\nsignal 9 (Killed).")
        self.expect("a rank on h2 was ended by SIGKILL", [], "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 77 RUNNING AT h2\n=   EXIT CODE: 9\n"
                    "=   CLEANING UP REMAINING PROCESSES\n===\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)")
        self.expect("rank 1 on h2 was ended by Killed", [], "srun: error: h2: task 1: Killed")
        self.expect("rank 1 ended with exit code 5", [], "  Process name: [[5161,1],1]\n  Exit code:    5")
        self.expect("host h2 has left the run: its MPI daemon does not answer", [], "  HNP daemon   : [[33094,0],0] on node h1\n  Remote daemon: [[33094,0],1] on node h2")
        self.expect(None, [], "mpirun: something else")

    def test_notes_and_warnings_are_no_cause(self):
        lines = ["train: note: --eval is not needed: it evaluates", "train: warning: ranks differ"]
        self.expect("rank 1 ended with exit code 5", lines, "  Process name: [[5161,1],1]\n  Exit code:    5")

    def test_the_rank_at_fault_before_those_that_miss_it(self):
        missed = "train: rank 0 on h1: transport: rank 1 has ended (operation all_reduce, peer rank 1)"
        fault = "train: rank 1 on h2: io: disk full"
        self.expect("rank 1 on h2: io: disk full", [missed, fault], "")
        self.expect("rank 1 on h2: io: disk full", [fault, missed], "  Process name: [[5161,1],0]\n  Exit code:    1")
        self.expect("rank 1 on h2 was ended by SIGKILL", [missed], "mpirun noticed that process rank 1 with PID 12 on node h2 exited on signal 9 (Killed).")
        self.expect("rank 1 on h2: io: disk full", [fault], "mpirun noticed that process rank 1 with PID 12 on node h2 exited on signal 6 (Aborted).")
        self.expect("io: cannot read DIR", ["train: io: cannot read DIR"], "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
