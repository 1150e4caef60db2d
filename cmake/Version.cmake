# SPDX-License-Identifier: Apache-2.0
# Sources that say what was built: lockstep_build_info(<target>) adds to it the commit, read at every build, and the
# versions of the libraries found, read when CMake runs. apps/cli/version.hpp declares both.
function(lockstep_build_info target)
  set(directory ${CMAKE_CURRENT_BINARY_DIR}/build_info)
  add_custom_target(${target}_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${directory}/commit.cpp
      -P ${PROJECT_SOURCE_DIR}/cmake/WriteCommit.cmake
    BYPRODUCTS ${directory}/commit.cpp COMMENT "" VERBATIM)
  add_dependencies(${target} ${target}_commit)

  if(LOCKSTEP_HAS_CUDA)
    set(cuda_version ${CUDAToolkit_VERSION})
    set(nccl_version ${NCCL_VERSION})
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/apps/cli/build_info.cpp.in ${directory}/build_info.cpp @ONLY)
  target_sources(${target} PRIVATE ${directory}/build_info.cpp ${directory}/commit.cpp)
endfunction()
