# SPDX-License-Identifier: Apache-2.0
# NCCL_INCLUDE_DIR and NCCL_VERSION; also looks beside the CUDA toolkit. The header is enough to build lockstep, which loads the
# library at run time. Where the library is found there is the target NCCL::nccl, for tests that ask NCCL itself.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib64 lib)
if(NCCL_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_${part} REGEX "^#define NCCL_${part} ")
    string(REGEX REPLACE "[^0-9]" "" nccl_${part} "${nccl_${part}}")
  endforeach()
  set(NCCL_VERSION ${nccl_MAJOR}.${nccl_MINOR}.${nccl_PATCH})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NCCL_LIBRARY AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
