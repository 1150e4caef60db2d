#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills carry/packages (ignored by git) with the Debian packages that lockstep is built with, for a machine with a GPU on
# which nothing can be installed. Run it on the same Debian release. gpu-check.sh unpacks them there, into carry/usr;
# packed they are a seventh of the size.
#   gpu-carry.sh [--run]      --run: only the packages that programs need that were built elsewhere (gpu-check.sh --no-build)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v apt-get >/dev/null || fail "this is no Debian or Ubuntu"
# What is needed to run, and to build, without what any machine with a compiler has.
wanted=(openmpi-bin openmpi-common libopenmpi3 libpmix2 libmunge2 libucx0 libfabric1 libpsm2-2 libpsm-infinipath1 libibverbs1
  librdmacm1 libnl-3-200 libnl-route-3-200 libevent-core-2.1-7 libevent-pthreads-2.1-7 libhwloc15 libhwloc-plugins libltdl7
  libnuma1 libboost-program-options1.74.0 libboost-context1.74.0 libdnnl2 ocl-icd-libopencl1 libssl3)
case ${1:-} in
  --run) ;;
  "")
    wanted+=(cmake cmake-data ninja-build pkg-config pkgconf pkgconf-bin libpkgconf3 libjsoncpp25 librhash0 libuv1 libarchive13
      libopenmpi-dev libpmix-dev libibverbs-dev libevent-2.1-7 libevent-dev libhwloc-dev libboost-program-options-dev
      libboost-program-options1.74-dev libboost1.74-dev libboost-context-dev libboost-context1.74-dev libdnnl-dev libssl-dev
      libgtest-dev googletest zlib1g-dev nlohmann-json3-dev)
    ;;
  *) fail "unknown option '$1'; usage: gpu-carry.sh [--run]" ;;
esac

rm -rf carry
mkdir -p carry/packages
(cd carry/packages && apt-get -q download "${wanted[@]}")
du -sh carry
