# SPDX-License-Identifier: Apache-2.0
# Tests which GPUs builds have code for: cmake -P cuda_architectures.cmake
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/CudaArchitectures.cmake)
function(expect build_type toolkit_version expected)
  lockstep_cuda_architectures(found "${build_type}" ${toolkit_version})
  if(NOT found STREQUAL expected)
    message(SEND_ERROR "'${build_type}' with CUDA ${toolkit_version} is compiled for '${found}', not for '${expected}'")
  endif()
endfunction()
expect(Release 12.6 "80;90-real")
expect(Release 12.8 "80;90-real;100-real")
expect(Release 13.0 "80;90-real;100-real")
expect(RelWithDebInfo 13.0 "80")
expect("" 12.6 "80")
