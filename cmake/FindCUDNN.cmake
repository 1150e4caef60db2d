# SPDX-License-Identifier: Apache-2.0
# CUDNN_INCLUDE_DIR and CUDNN_VERSION, of the header cudnn_graph.h: in CUDNN_ROOT, beside the CUDA toolkit, or in the Python
# wheel nvidia-cudnn-cu13. The header is enough to build lockstep, which loads the library at run time. CUDNN_LIBRARY is the
# library beside the header, if there is one, for tests that ask cuDNN itself.
set(cudnn_wheels "")
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  foreach(folder ${Python3_SITELIB} ${Python3_SITEARCH})
    list(APPEND cudnn_wheels ${folder}/nvidia/cudnn)
  endforeach()
endif()
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${cudnn_wheels} PATH_SUFFIXES include)
find_file(CUDNN_LIBRARY libcudnn.so.9 HINTS ${CUDNN_INCLUDE_DIR}/../lib ${CUDNN_INCLUDE_DIR}/../lib64 ${CUDAToolkit_LIBRARY_DIR})
if(CUDNN_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCHLEVEL)
    file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h cudnn_${part} REGEX "^#define CUDNN_${part} ")
    string(REGEX REPLACE "[^0-9]" "" cudnn_${part} "${cudnn_${part}}")
  endforeach()
  set(CUDNN_VERSION ${cudnn_MAJOR}.${cudnn_MINOR}.${cudnn_PATCHLEVEL})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
