#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package lockstep_torch for an installed PyTorch and tests it: every operation of torch.distributed beside Gloo's
# on 1, 2 and 3 ranks under mpirun and torchrun, and on two hosts under mpirun, srun and torchrun; DistributedDataParallel,
# ZeroRedundancyOptimizer, FSDP2, DTensor, lightning and accelerate under mpirun, torchrun and srun, whose weights must be
# Gloo's; ranks that are killed, late, or end; a group whose members change; and the wheel's metadata. Takes some minutes.
#   torch-c10d.sh [--bench]   with --bench also mpi-scripts/bench/c10d.py
#   PYTHON  an interpreter with torch, numpy, torchvision, lightning, accelerate and scikit_build_core (parity/torch-venv.sh)
#   PRESET  the build of lockstep that is installed for it (release)
#   PREFIX  a folder where lockstep is installed already, in place of a build
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
python=$(mpi-scripts/parity/torch-venv.sh torchvision lightning accelerate scikit_build_core)
python=$(realpath -s "$python") # a link to another folder would lose the virtual environment
prefix=${PREFIX:-}
if [ -z "$prefix" ]; then
  prefix=$PWD/build/torch-prefix
  [ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
  cmake --build "build/$preset" -j "$jobs"
  cmake --install "build/$preset" --prefix "$prefix" >/dev/null
fi

section "Building the package, by way of a source distribution"
rm -rf build/torch-site build/torch-wheels
mkdir -p build/torch-wheels
(cd bindings/torch && "$python" -c "import scikit_build_core.build as build; build.build_sdist('../../build/torch-wheels')" >/dev/null)
CMAKE_PREFIX_PATH=$prefix "$python" -m pip wheel --quiet --no-build-isolation --no-deps -w build/torch-wheels build/torch-wheels/*.tar.gz
"$python" -m pip install --quiet --no-deps --target build/torch-site build/torch-wheels/*.whl
export PYTHONPATH=$PWD/build/torch-site OMP_NUM_THREADS=1
launcher=${MPIEXEC:-mpirun}
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

section "Another version of PyTorch than it was built for"
minor=$("$python" -c 'import torch; print(".".join(torch.__version__.split(".")[:2]))')
grep -qx "Requires-Dist: torch==$minor\.\*" build/torch-site/lockstep_torch-*.dist-info/METADATA || fail "the wheel does not ask for torch==$minor.*"
rm -rf build/torch-site-old
cp -r build/torch-site build/torch-site-old
echo 'TORCH = "2.0"' >build/torch-site-old/lockstep_torch/_built_for.py
if PYTHONPATH=build/torch-site-old "$python" -c "import lockstep_torch" 2>build/torch-old.log; then fail "it was imported"; fi
grep -o 'lockstep_torch was built for PyTorch 2.0, and this is PyTorch .*' build/torch-old.log || fail "build/torch-old.log has no reason"
PYTHONPATH=build/torch-site-old "$python" -W ignore -c "import torch" || fail "PyTorch itself was not imported"

torchrun=("$python" -m torch.distributed.run --nproc-per-node)
for ranks in 1 2 3; do
  section "Operations on $ranks ranks"
  "$launcher" -n $ranks "$python" tests/bindings/torch_test.py
  "${torchrun[@]}" $ranks tests/bindings/torch_test.py
done
section "Operations on 2 ranks of the group cpu:lockstep"
"${torchrun[@]}" 2 tests/bindings/torch_test.py cpu:lockstep

# digests LAUNCH... -- CLIENT BACKEND   one digest, if all ranks have the same; none if the launcher finds no hosts
digests() {
  local launch=()
  while [ "$1" != -- ]; do launch+=("$1") && shift; done
  local output
  output=$("${launch[@]}" mpi-scripts/parity/torch-clients.py "$2" "$3" 2>&1) || fail "$2 with $3 failed: $output"
  { grep -o 'digest [0-9.]*' <<<"$output" || [ "${launch[0]}" = on_hosts ]; } | sort -u
}

section "Libraries on top of torch.distributed, two ranks: the weights beside Gloo's"
declare -A gloo_digests
for client in ddp{,-allocated} zero fsdp2{,-allocated} dtensor {lightning,accelerate}-{resnet18,language}; do
  ours=$(digests "$launcher" -n 2 "$python" -- "$client" lockstep)
  by_torchrun=$(digests "${torchrun[@]}" 2 -- "$client" lockstep)
  gloo=$(digests "${torchrun[@]}" 2 -- "$client" gloo)
  gloo_digests[$client]=$gloo
  [ "$ours" = "$gloo" ] || fail "$client: $ours, and with Gloo $gloo"
  [ "$by_torchrun" = "$gloo" ] || fail "$client under torchrun: $by_torchrun, and with Gloo $gloo"
  echo "$client: $ours, under torchrun and with Gloo, too"
done

# on_hosts OPTION... COMMAND...   on two hosts, which are namespaces of this machine
on_hosts() {
  local status=0
  mpi-scripts/local-cluster.sh run "$@" || status=$?
  [ "$status" = 0 ] || [ "$status" = 77 ] || fail "it ended with $status" # 77: it has said why there are no hosts
}
section "Operations on two hosts, under mpirun, srun and torchrun"
on_hosts --per-host 1 "$python" tests/bindings/torch_test.py
on_hosts --slurm srun --mpi=pmix -N2 -n2 "$python" tests/bindings/torch_test.py
on_hosts mpi-scripts/parity/torchrun-on-hosts.sh "$python" tests/bindings/torch_test.py

section "Libraries under srun on two hosts"
for client in ddp fsdp2 {lightning,accelerate}-{resnet18,language}; do
  # lightning refuses srun's -n.
  ours=$(digests on_hosts --slurm srun --mpi=pmix -N2 --ntasks-per-node=1 "$python" -- "$client" lockstep)
  if [ -z "$ours" ]; then
    echo "skipped: this machine has no hosts for it"
    break
  fi
  [ "$ours" = "${gloo_digests[$client]}" ] || fail "$client under srun: $ours, and with Gloo ${gloo_digests[$client]}"
  echo "$client: $ours, with Gloo, too"
done

section "A rank that is killed"
# killed LAUNCH...   launches that leave the other ranks alive
killed() {
  "$@" "$python" mpi-scripts/parity/torch-killed.py >build/torch-killed.log 2>/dev/null || true
  grep '^rank' build/torch-killed.log || fail "no rank learned of it"
  [ "$(grep -c '^rank [02] knew after [0-9]\{1,3\} ms: .*rank 1' build/torch-killed.log)" = 2 ] || fail "not both other ranks named rank 1 in a second"
}
killed "$launcher" -n 3 --enable-recovery
killed tests/install/without_mpi.sh 3

section "A rank that is late"
# late LAUNCH...   three ranks, of which rank 1 keeps the others waiting
late() {
  "$@" "$python" mpi-scripts/parity/torch-late.py 2>build/torch-late.log
  [ "$(grep -c 'Warning: lockstep: rank [02] on .* has waited for other ranks for 4 s, and goes on waiting:' build/torch-late.log)" = 1 ] ||
    fail "build/torch-late.log does not tell once that the others wait"
  grep -q '^rank 1 on .*: outside of lockstep' build/torch-late.log || fail "build/torch-late.log does not tell what rank 1 does"
}
late "$launcher" -n 3
late tests/install/without_mpi.sh 3

section "A rank that is late for a deadline or a monitored barrier, aborts, or ends by an exception"
# fault CASE LAUNCH...   launches that leave the other ranks alive; both of them must name rank 1
fault() {
  "${@:2}" "$python" mpi-scripts/parity/torch-faults.py "$1" >build/torch-faults.log 2>/dev/null || true
  cat build/torch-faults.log
  [ "$(grep -c "^$1: rank [02] knew after .* ms, as it should: " build/torch-faults.log)" = 2 ] || fail "$1: not both other ranks learned of it"
}
for case in late monitored abort exception; do
  fault "$case" "$launcher" -n 3 --enable-recovery
  fault "$case" tests/install/without_mpi.sh 3
done

section "A group whose members change"
tests/install/without_mpi.sh 3 "$python" mpi-scripts/parity/torch-reconfigure.py >build/torch-reconfigure.log 2>build/torch-reconfigure.err || true
cat build/torch-reconfigure.log
[ "$(grep -c 'has ended in good order' build/torch-reconfigure.log)" = 2 ] || fail "build/torch-reconfigure.err has the reason"

if [ "${1:-}" = --bench ]; then
  section "Speed beside Gloo"
  "$launcher" -n 2 "$python" mpi-scripts/bench/c10d.py
fi
