# SPDX-License-Identifier: Apache-2.0
# Every library lockstep links, found once. mpi-scripts/install-deps.sh installs the Debian packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)
if(LOCKSTEP_PROGRAMS)
  find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)
endif()
set(MPI_CXX_SKIP_MPICXX TRUE)  # the C interface, without the C++ bindings of MPI-2
find_package(MPI REQUIRED COMPONENTS CXX)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc>=2.5)
find_package(DNNL 2.6...<4 REQUIRED)
include(Cuda)
if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
endif()
