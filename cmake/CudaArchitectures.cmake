# SPDX-License-Identifier: Apache-2.0
# Chooses what the kernels for GPUs are compiled for: the oldest generation that is served, whose code newer GPUs translate when they
# first load it, which takes minutes. So releases have code for some of them, too; each takes most of a minute to compile.
function(lockstep_cuda_architectures result build_type toolkit_version)
  set(architectures 80)
  if(build_type STREQUAL "Release")
    list(APPEND architectures 90-real)
    if(toolkit_version VERSION_GREATER_EQUAL 12.8)
      list(APPEND architectures 100-real)
    endif()
  endif()
  set(${result} ${architectures} PARENT_SCOPE)
endfunction()
