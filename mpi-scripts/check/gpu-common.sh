# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by gpu-check.sh and gpu-short.sh, after common.sh: where programs find MPI, NCCL and cuDNN on a machine with a GPU.

# Packages that gpu-carry.sh fetched, unpacked beside them; and the names that installing would have given Open MPI's tools.
unpack() {
  local root=$1 package tool
  for package in "$root"/packages/*.deb; do dpkg -x "$package" "$root"; done
  for tool in mpicc mpicxx mpirun mpiexec; do ln -sf "$tool.openmpi" "$root/usr/bin/$tool"; done
}

# NCCL, cuDNN, and what cuDNN compiles with, from PyTorch's packages.
use_wheels() {
  local folder library
  folder=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || return 0
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
  for library in nccl cudnn cu13; do LD_LIBRARY_PATH+=:$folder/$library/lib; done
}

# Where the loader does not know the NCCL that build/cuda was configured with, lockstep is told.
use_built_nccl() {
  local nccl
  [ -e build/cuda/CMakeCache.txt ] || return 0
  nccl=$(sed -n 's/^NCCL_LIBRARY:[A-Z]*=\(\/.*\)/\1/p' build/cuda/CMakeCache.txt)
  [ ! -e "$nccl" ] || export LOCKSTEP_NCCL_LIBRARY=${LOCKSTEP_NCCL_LIBRARY:-$nccl}
}

# use_prefix CARRY/usr   programs, libraries and headers from there
use_prefix() {
  local prefix libraries
  [ -d "$1/bin" ] || unpack "$(dirname "$1")"
  prefix=$(realpath "$1")
  libraries=$prefix/lib/$(uname -m)-linux-gnu
  export PATH=$prefix/bin:$PATH
  export LD_LIBRARY_PATH=$libraries:$libraries/openmpi/lib:${LD_LIBRARY_PATH:-}
  export LIBRARY_PATH=$libraries:${LIBRARY_PATH:-}
  export CMAKE_PREFIX_PATH=$prefix
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$prefix/share/pkgconfig
  export PKG_CONFIG_SYSROOT_DIR=${prefix%/usr}
  export OPAL_PREFIX=$prefix OPAL_LIBDIR=$libraries OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3
  export OPAL_SYSCONFDIR=${prefix%/usr}/etc/openmpi
  export HWLOC_PLUGINS_PATH=$libraries/hwloc
}
