#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries what people do with lockstep whose machines are not like the developers'.
#   strangers.sh [package] [no_mpi] [subproject] [deps] [quickstart] [root]    all where none is named
#     package      installed, static and shared, found by find_package and by pkg-config, without CUDA and NCCL even where
#                  lockstep was built with them, and lockstep::train with Boost and with Boost gone
#     no_mpi       where there is no MPI: the library, lockstep_torch and the examples that need none, which start by variables
#                  (PYTHON: an interpreter with torch; without it torch-venv.sh makes one)
#     subproject   taken in with add_subdirectory, into a project that keeps its settings
#     deps         install-deps.sh without network, and without root, where a package is missing and where none is
#     quickstart   from a tarball, in a path with spaces, as an ordinary user, without network; and test.sh's format there
#     root         README's mpirun lines, as root
# deps, quickstart and root have to be started as root, since they become somebody else, or need to be it.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

readonly out=$PWD/build/strangers

# expect TEXT COMMAND...   the command succeeds and its output has the text
expect() {
  local text=$1 output
  shift
  output=$("$@" 2>&1) || fail "'$*' ended with $?: $output"
  grep -qF -- "$text" <<<"$output" || fail "'$*' does not say '$text': $output"
}

# refuse TEXT COMMAND...   the command fails and its output has the text
refuse() {
  local text=$1 output
  shift
  if output=$("$@" 2>&1); then fail "'$*' should have failed: $output"; fi
  grep -qF -- "$text" <<<"$output" || fail "'$*' does not say '$text': $output"
}

# stranger NAME OPTION...   configures and builds tests/install/stranger and runs it
stranger() {
  local build=$out/$1
  shift
  rm -rf "$build"
  cmake -S tests/install/stranger -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" &&
    cmake --build "$build" && "$build/stranger"
}

# trains NAME   the model that tests/install/stranger adds to train, where stranger NAME has built it
trains() { expect "strange on synthetic-digits" "$out/$1/stranger_train" --model strange --steps 1 --batch 16; }

# needs_no_cuda NAME [LIBRARY]   neither the program that stranger NAME has built nor the library is linked with CUDA or NCCL,
#                                and the program says what to do where NCCL cannot be loaded
needs_no_cuda() {
  tests/install/needed.sh "$out/$1/stranger" "${@:2}"
  [ -n "$why" ] || LOCKSTEP_NCCL_LIBRARY=/nonexistent/libnccl.so.2 expect "LOCKSTEP_NCCL_LIBRARY=/nonexistent/libnccl.so.2" \
    "$out/$1/stranger"
}

# installed static|shared [OPTION]   builds the package, in one folder for all, as the preset dev would
installed() {
  local shared=OFF
  [ "$1" = static ] || shared=ON
  cmake --preset dev -B "$out/build" -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_SHARED=$shared "${2:--DLOCKSTEP_PROGRAMS=ON}" >/dev/null
  cmake --build "$out/build" -j "$jobs"
  rm -rf "${out:?}/$1"
  cmake --install "$out/build" --prefix "$out/$1" >/dev/null
}

package() {
  section "Static libraries"
  installed static
  local version why no_boost=-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON no_cuda=-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON from=-DCMAKE_PREFIX_PATH=$out/static
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$out/build/CMakeCache.txt")
  why=$(sed -n 's/^LOCKSTEP_CUDA_MISSING:INTERNAL=//p' "$out/build/CMakeCache.txt")
  expect "lockstep $version, NCCL '" stranger found "$from" -DLOCKSTEP_COMPONENTS=train
  trains found
  refuse lockstep_FOUND stranger found "$from" "$no_boost" -DLOCKSTEP_COMPONENTS=train
  expect "lockstep comes without lockstep::train here" stranger found "$from" "$no_boost"
  [ ! -e "$out/found/stranger_train" ] || fail "lockstep::train is there without Boost"
  if [ -n "$why" ]; then
    expect "$why" stranger found "$from"
    refuse lockstep_FOUND stranger found "$from" -DLOCKSTEP_COMPONENTS=cuda
  else
    expect "lockstep $version" stranger found "$from" "$no_cuda" -DLOCKSTEP_COMPONENTS=cuda
  fi
  needs_no_cuda found
  expect "lockstep $version, NCCL '" stranger pkg-config -DLOCKSTEP_BY=pkg-config "$from"
  needs_no_cuda pkg-config
  trains pkg-config

  section "Shared library"
  installed shared
  from=-DCMAKE_PREFIX_PATH=$out/shared
  local soname=${version%.*}
  [[ $soname = 0.* ]] || soname=${soname%.*}
  # Boost is a matter of the library's own there.
  expect "lockstep $version" stranger found "$from" "$no_boost" -DLOCKSTEP_COMPONENTS=train
  trains found
  needs_no_cuda found "$out/shared/lib/liblockstep.so"
  local foreign
  foreign=$(nm -D --defined-only "$out"/shared/lib/liblockstep{,_train}.so | awk 'NF == 3 && $3 !~ /^_Z[A-Z]*[hn]*[0-9_]*N[KRO]*8lockstep/ { print $3 }')
  [ -z "$foreign" ] || fail "the shared libraries export symbols of others: $(head -n 3 <<<"$foreign" | tr '\n' ' ')"
  expect "[liblockstep.so.$soname]" readelf -d "$out/found/stranger"
  expect "[liblockstep_train.so.$soname]" readelf -d "$out/found/stranger_train"
  LD_LIBRARY_PATH=$out/shared/lib expect "lockstep $version" stranger pkg-config -DLOCKSTEP_BY=pkg-config "$from"
  LD_LIBRARY_PATH=$out/shared/lib trains pkg-config
  expect "[liblockstep.so.$soname]" readelf -d "$out/pkg-config/stranger"

  section "Without the programs"
  installed static -DLOCKSTEP_PROGRAMS=OFF
  from=-DCMAKE_PREFIX_PATH=$out/static
  [ ! -e "$out/static/include/lockstep/train.hpp" ] || fail "lockstep/train.hpp is installed without its library"
  refuse lockstep_FOUND stranger found "$from" -DLOCKSTEP_COMPONENTS=train
  expect "lockstep $version" stranger found "$from"
}

no_mpi() {
  section "Without MPI"
  local build=$out/no-mpi examples=$out/no-mpi-examples none=-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON program python
  cmake --preset quickstart -B "$build" -DLOCKSTEP_MPI=OFF -DLOCKSTEP_C=ON -DLOCKSTEP_INSTALL=ON "$none" >/dev/null
  cmake --build "$build" -j "$jobs"
  rm -rf "${out:?}/no-mpi-prefix" "$examples"
  cmake --install "$build" --prefix "$out/no-mpi-prefix" >/dev/null
  [ ! -e "$out/no-mpi-prefix/include/lockstep/mpi.hpp" ] || fail "lockstep/mpi.hpp is installed without MPI"
  cmake -S examples -B "$examples" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$out/no-mpi-prefix" "$none" >/dev/null
  cmake --build "$examples"
  for program in from_environment c_train fortran_mean; do
    if ldd "$examples/$program" | grep 'libmpi\.so'; then fail "$program needs that"; fi
  done
  expect "rank 2: y = 3.000x - 1.000" tests/install/without_mpi.sh 3 "$examples/from_environment"
  expect "rank 2: mean = 500.5" tests/install/without_mpi.sh 3 "$examples/fortran_mean"
  python=$(mpi-scripts/parity/torch-venv.sh)
  cmake -S bindings/torch -B "$out/no-mpi-torch" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$out/no-mpi-prefix" \
    -DPython_EXECUTABLE="$(realpath -s "$python")" >/dev/null
  cmake --build "$out/no-mpi-torch"
  rm -rf "${out:?}/no-mpi-site"
  cmake --install "$out/no-mpi-torch" --prefix "$out/no-mpi-site" >/dev/null
  cp bindings/torch/lockstep_torch/*.py "$out/no-mpi-site/lockstep_torch"
  if ldd "$out"/no-mpi-torch/_lockstep*.so | grep 'libmpi\.so'; then fail "lockstep_torch needs that"; fi
  # By the store of torchrun itself, which is not lockstep's.
  expect "rank 2: y = 3.000x - 1.000" "$python" -m torch.distributed.run --no-python --nproc-per-node 3 "$examples/from_environment"
  expect "y = 3.000x -1.000" "$python" -m torch.distributed.run --no-python --nproc-per-node 3 "$examples/c_train"
  PYTHONPATH=$out/no-mpi-site OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --nproc-per-node 2 tests/bindings/torch_test.py
  expect "y = 3.000x -1.000" tests/install/without_mpi.sh 3 "$examples/c_train"
  cmake -S examples/torch -B "$out/no-mpi-libtorch" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$out/no-mpi-prefix" \
    -DLIBTORCH="$("$python" -c 'import torch; print(torch.__path__[0])')" >/dev/null
  cmake --build "$out/no-mpi-libtorch"
  expect "y = 3.00x - 1.00" tests/install/without_mpi.sh 3 "$out/no-mpi-libtorch/torch_line"
}

subproject() {
  section "Subproject"
  local build=$out/subproject targets
  rm -rf "$build"
  cmake -S tests/install/stranger -B "$build" -G Ninja -DCMAKE_BUILD_TYPE= "-DLOCKSTEP_BY=$PWD" -DLOCKSTEP_CUDA=OFF >/dev/null
  grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$build/CMakeCache.txt" || fail "lockstep has set CMAKE_BUILD_TYPE"
  targets=$(cmake --build "$build" --target help)
  if grep -E '^(train|comm-bench|topo|.*_tests?):' <<<"$targets"; then fail "lockstep builds programs or tests"; fi
  grep -q '^lockstep_base:' <<<"$targets" || fail "lockstep's own targets are missing: $targets"
  cmake --install "$build" --prefix "$build/prefix" >/dev/null
  [ ! -e "$build/prefix" ] || fail "lockstep installs: $(find "$build/prefix")"
}

need_root() { [ "$(id -u)" = 0 ] || fail "this has to be started as root"; }
# Without root, its variables, and network.
stripped() { env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM -u PRTE_ALLOW_RUN_AS_ROOT -u PRTE_ALLOW_RUN_AS_ROOT_CONFIRM "$@"; }
as_nobody() {
  # Even a machine without network has the loopback interface; without any, Open MPI's compiler wrapper complains.
  stripped unshare --net sh -c 'ip link set lo up && exec "$@"' sh setpriv --reuid=nobody --regid=nogroup --clear-groups \
    env HOME="$home" PATH="$nobodys_path" CMAKE_CXX_COMPILER_LAUNCHER= "$@"
}

# A place that nobody owns, in whose path are spaces.
make_home() {
  need_root
  home="$(mktemp -d)/a path with spaces"
  nobodys_path=$PATH
  mkdir "$home"
  chmod 755 "${home%/*}"
  trap 'rm -rf "${home%/*}"' EXIT
}

deps() {
  section "install-deps.sh without root and network"
  make_home
  mkdir "$home/bin" "$home/source"
  cp -r mpi-scripts "$home/source"
  chmod -R a+rX "$home"
  expect "are installed" as_nobody "$home/source/mpi-scripts/install-deps.sh" --build-only
  # One package is missing, and no sudo is there.
  printf '#!/bin/sh\ncase "$*" in *zlib1g-dev*) exit 1 ;; esac\nexec /usr/bin/dpkg-query "$@"\n' >"$home/bin/dpkg-query"
  chmod a+rx "$home/bin/dpkg-query"
  local tool
  for tool in env bash dirname id nproc apt-get apt-cache grep; do ln -s "$(command -v "$tool")" "$home/bin"; done
  nobodys_path=$home/bin
  refuse "have somebody install: zlib1g-dev" as_nobody "$home/source/mpi-scripts/install-deps.sh" --build-only
}

quickstart() {
  section "Quick start from a tarball, in a path with spaces, as an ordinary user, without network"
  make_home
  git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$home"
  chown -R nobody "$home"
  local begin=$SECONDS
  expect "test images are classified correctly" as_nobody "$home/mpi-scripts/quickstart.sh"
  echo "$((SECONDS - begin)) seconds"
  expect "clang-format, shellcheck, spelling, license" as_nobody "$home/mpi-scripts/test.sh" format
}

root() {
  section "README's mpirun lines as root"
  need_root
  [ -x build/quickstart/bin/comm-bench ] || { cmake --preset quickstart && cmake --build --preset quickstart -j "$jobs" --target comm-bench; }
  local variables mpirun_line
  variables=$(grep -o 'OMPI_ALLOW_RUN_AS_ROOT[A-Z_]*=1' README.md | tr '\n' ' ')
  [ -n "$variables" ] || fail "README does not say what root has to set"
  mpirun_line=$(grep -m 1 '^mpirun -np 2 .*/comm-bench ' README.md) || fail "README has no line that starts comm-bench"
  mpirun_line="${mpirun_line/release/quickstart} --max 4 --seconds 0.1"
  refuse allow-run-as-root stripped bash -c "$mpirun_line"
  expect "all_reduce" stripped env OMPI_MCA_rmaps_base_oversubscribe=1 bash -c "export $variables"$'\n'"$mpirun_line"
}

known=(package no_mpi subproject deps quickstart root)
[ $# -gt 0 ] || set -- "${known[@]}"
for what in "$@"; do
  [[ " ${known[*]} " == *" $what "* ]] || fail "unknown part '$what'; there are ${known[*]}"
done
# Each in a shell of its own, with its own folder to clean up.
for what in "$@"; do (set -e && "$what"); done
section "Done"
