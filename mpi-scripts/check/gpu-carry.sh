#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills build/carry with what a machine with a GPU needs on which nothing can be installed: in build/carry/packages the
# Debian packages that lockstep is built with, which gpu-check.sh and gpu-short.sh unpack there, into build/carry/usr; packed they are
# a seventh of the size. Run it on the same Debian release.
#   gpu-carry.sh [--run] [--programs [--old COMMIT] [--no-build]]
#     --run          only the packages that programs need that were built elsewhere (gpu-check.sh --no-build, gpu-short.sh)
#     --programs     also build/carry/programs.tar.xz: what gpu-short.sh runs, built by the preset cuda for an H100 (sm_90), stripped
#     --old COMMIT   also train of that commit, which train is compared with (the one that docs/gpu-results.md measured last)
#     --no-build     take the programs as they are in build/cuda and in build/older
# NOW and BEFORE name other folders of built programs than these two, for instance the same one twice. KERNELS names the choices
# of an earlier run that travel along: build/gpu-short/kernels.txt if it is there, else docs/measurements/gpu-kernels.txt.
# With --programs it fails if the files of the repository and carry have more than 64 MiB together.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

readonly most_mib=64
architecture=${CUDAARCHS:-90-real}
old=720a5d56
now=${NOW:-build/cuda}
before=${BEFORE:-}
run='' programs='' build=yes
while [ $# -gt 0 ]; do
  case $1 in
    --run) run=yes ;;
    --programs) programs=yes ;;
    --old) old=${2:?"--old needs a commit"} && shift ;;
    --no-build) build='' ;;
    *) fail "unknown option '$1'; usage: gpu-carry.sh [--run] [--programs [--old COMMIT] [--no-build]]" ;;
  esac
  shift
done
before=${before:-build/older/$old/build/cuda}

# What is needed to run, and to build, without what any machine with a compiler has.
carry_packages() {
  command -v apt-get >/dev/null || fail "this is no Debian or Ubuntu"
  local wanted=(openmpi-bin openmpi-common libopenmpi3 libpmix2 libmunge2 libucx0 libfabric1 libpsm2-2 libpsm-infinipath1 libibverbs1
    librdmacm1 libnl-3-200 libnl-route-3-200 libevent-core-2.1-7 libevent-pthreads-2.1-7 libhwloc15 libhwloc-plugins libltdl7
    libnuma1 libboost-program-options1.74.0 libboost-context1.74.0 libdnnl2 ocl-icd-libopencl1 libssl3
    libturbojpeg0 libspng0 libpugixml1v5 libyaml-cpp0.7 liblmdb0 libgomp1 libudev1)
  if [ -z "$run" ]; then
    wanted+=(cmake cmake-data ninja-build pkg-config pkgconf pkgconf-bin libpkgconf3 libjsoncpp25 librhash0 libuv1 libarchive13
      libopenmpi-dev libpmix-dev libibverbs-dev libevent-2.1-7 libevent-dev libhwloc-dev libboost-program-options-dev
      libboost-program-options1.74-dev libboost1.74-dev libboost-context-dev libboost-context1.74-dev libdnnl-dev libssl-dev
      libgtest-dev googletest zlib1g-dev nlohmann-json3-dev libturbojpeg0-dev libspng-dev libpugixml-dev libyaml-cpp-dev liblmdb-dev)
  fi
  mkdir -p build/carry/packages
  (cd build/carry/packages && apt-get -q download "${wanted[@]}")
}

# build_in FOLDER TARGET...   programs of the sources there
build_in() {
  local folder=$1
  shift
  (cd "$folder" && cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES="$architecture" >/dev/null &&
    cmake --build --preset cuda -j "$jobs" --target "$@")
}

build_programs() {
  section "Building what gpu-short.sh runs (preset cuda, $architecture)"
  build_in . train ops_cuda_ops_test backends_nccl_test lockstep_capture_test
  section "Building train of commit $old"
  local sources=build/older/$old
  if [ ! -e "$sources/complete" ]; then
    git rev-parse --verify --quiet "$old^{commit}" >/dev/null || fail "commit $old is not in this repository: a full clone has it"
    rm -rf "$sources"
    mkdir -p "$sources"
    git archive "$old" | tar -x -C "$sources"
    touch "$sources/complete"
  fi
  build_in "$sources" train
}

# pack FROM NAME   a program, stripped
pack() {
  [ -f "$1" ] || fail "there is no $1: build it, or leave --no-build out"
  strip -o "$packed/$2" "$1"
}

carry_programs() {
  [ -z "$build" ] || build_programs
  packed=$(mktemp -d)
  trap 'rm -rf "$packed"' EXIT
  pack "$now/bin/train" train
  pack "$before/bin/train" train-old
  pack "$now/tests/ops_cuda_ops_test" cuda_ops_test
  pack "$now/tests/backends_nccl_test" nccl_test
  pack "$now/tests/lockstep_capture_test" capture_test
  git describe --always --dirty --abbrev=12 >"$packed/COMMIT" 2>/dev/null || echo unknown >"$packed/COMMIT"
  echo "$old" >"$packed/COMMIT-OLD"
  local kernels=${KERNELS:-build/gpu-short/kernels.txt}
  [ -n "${KERNELS:-}" ] || [ -e "$kernels" ] || kernels=docs/measurements/gpu-kernels.txt
  if [ -e "$kernels" ]; then
    cp "$kernels" "$packed/kernels.txt"
  elif [ -n "${KERNELS:-}" ]; then
    fail "there is no file $KERNELS, which KERNELS names"
  else
    echo "No kernel choices of an earlier run are here: the first one there measures its own."
  fi
  tar -C "$packed" -c . | xz -T0 -9 >build/carry/programs.tar.xz
  local bytes
  bytes=$({ files '*' && find build/carry -type f -print0; } | du -bc --files0-from=- | tail -n1 | cut -f1)
  echo "The repository's files and build/carry have $((bytes >> 20)) MiB."
  [ "$bytes" -le $((most_mib << 20)) ] || fail "that is more than $most_mib MiB; $(du -sh build/carry/* | tr '\n\t' ', ')"
}

rm -rf build/carry
mkdir -p build/carry
carry_packages
[ -z "$programs" ] || carry_programs
du -sh build/carry
