# SPDX-License-Identifier: Apache-2.0
# Target DNNL::dnnl; DNNL_VERSION, DNNL_VERSION_MAJOR. Debian's own dnnl-config.cmake demands OpenCL's development files, which lockstep has no
# use for.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
if(DNNL_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h dnnl_${part} REGEX "^#define DNNL_VERSION_${part} ")
    string(REGEX REPLACE "[^0-9]" "" dnnl_${part} "${dnnl_${part}}")
  endforeach()
  set(DNNL_VERSION_MAJOR ${dnnl_MAJOR})
  set(DNNL_VERSION ${dnnl_MAJOR}.${dnnl_MINOR}.${dnnl_PATCH})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR VERSION_VAR DNNL_VERSION
  HANDLE_VERSION_RANGE
  REASON_FAILURE_MESSAGE "lockstep needs oneDNN 2.6 to 3.x, as package libdnnl-dev of Debian 12 and 13 and of Ubuntu 24.04 has. One that lies apart is found by CMAKE_PREFIX_PATH")
if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION "${DNNL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
endif()
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
