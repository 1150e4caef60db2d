# SPDX-License-Identifier: Apache-2.0
# Decides whether the parts that need CUDA and NCCL are built. Rooms ask LOCKSTEP_HAS_CUDA and choose between a real file
# and one that says why the part is missing; the reason is LOCKSTEP_CUDA_MISSING, which is empty where nothing is missing.
# These parts are plain C++ that calls the runtime, except for the kernels in kernels/cuda, which need a CUDA compiler and ask
# LOCKSTEP_HAS_CUDA_COMPILER. Without one the nccl back end is built too, and refuses what needs them, for
# LOCKSTEP_CUDA_COMPILER_MISSING.
# Reasons have no semicolon: they become compile definitions, which CMake would cut in two there.
# Whoever links lockstep needs neither CUDA nor NCCL: the runtime is inside lockstep, NCCL is loaded at run time
# (docs/adr/0016-nccl-is-loaded-at-run-time.md).
set(LOCKSTEP_HAS_CUDA FALSE)
set(lockstep_missing "")
if(LOCKSTEP_CUDA STREQUAL "OFF")
  set(lockstep_missing "this build was configured with LOCKSTEP_CUDA=OFF")
else()
  # A toolkit without its compiler is enough, and not all versions of CMake find such a one by themselves.
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(lockstep_missing "the CUDA toolkit was not found: install it or set CUDAToolkit_ROOT")
  elseif(NOT TARGET CUDA::cudart_static)
    set(lockstep_missing "the CUDA toolkit in ${CUDAToolkit_BIN_DIR} has no libcudart_static.a (package cuda-cudart-dev)")
  else()
    find_package(NCCL 2.19 QUIET)
    if(NOT NCCL_FOUND)
      set(lockstep_missing "the header nccl.h of NCCL 2.19 or newer was not found (package libnccl-dev), or lies apart: set NCCL_ROOT")
    else()
      set(LOCKSTEP_HAS_CUDA TRUE)
    endif()
  endif()
endif()

if(LOCKSTEP_HAS_CUDA)
  add_library(lockstep_cuda_headers INTERFACE)
  target_include_directories(lockstep_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR})
endif()

set(LOCKSTEP_HAS_CUDA_COMPILER FALSE)
set(lockstep_compiler_missing "")
if(LOCKSTEP_HAS_CUDA)
  include(CheckLanguage)
  if(NOT DEFINED ENV{CUDACXX} AND EXISTS ${CUDAToolkit_BIN_DIR}/nvcc)
    set(ENV{CUDACXX} ${CUDAToolkit_BIN_DIR}/nvcc)  # where it is not in the path
  endif()
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(lockstep_compiler_missing "none was found that works (package cuda-nvcc), or it lies apart: set CMAKE_CUDA_COMPILER")
  else()
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      include(${CMAKE_CURRENT_LIST_DIR}/CudaArchitectures.cmake)
      lockstep_cuda_architectures(lockstep_architectures "${CMAKE_BUILD_TYPE}" ${CUDAToolkit_VERSION})
      set(CMAKE_CUDA_ARCHITECTURES ${lockstep_architectures} CACHE STRING "What the kernels for GPUs are compiled for")
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # see lockstep_embed_cuda_runtime
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
      set(lockstep_compiler_missing "that of CUDA ${CMAKE_CUDA_COMPILER_VERSION} knows no C++20, CUDA 12 does")
    else()
      set(LOCKSTEP_HAS_CUDA_COMPILER TRUE)
    endif()
  endif()
endif()

if(LOCKSTEP_HAS_CUDA)
  message(STATUS "CUDA ${CUDAToolkit_VERSION}, NCCL ${NCCL_VERSION}: building the nccl back end")
  if(NOT LOCKSTEP_HAS_CUDA_COMPILER)
    message(STATUS "No kernels for GPUs, hence no nccl in tree order, for want of a CUDA compiler: ${lockstep_compiler_missing}")
  endif()
elseif(LOCKSTEP_CUDA STREQUAL "ON")
  message(FATAL_ERROR "LOCKSTEP_CUDA=ON, but ${lockstep_missing}")
else()
  message(STATUS "No nccl back end: ${lockstep_missing}")
endif()
# Convolutions on GPUs need cuDNN's header, too, and the same holds for it: rooms ask LOCKSTEP_HAS_CUDNN, and the reason is
# LOCKSTEP_CUDNN_MISSING. 9.8 is the first with plans for GPUs that are only described.
set(LOCKSTEP_HAS_CUDNN FALSE)
set(lockstep_cudnn_missing "${lockstep_missing}")
if(LOCKSTEP_HAS_CUDA)
  find_package(CUDNN 9.8 QUIET)
  if(CUDNN_FOUND)
    set(LOCKSTEP_HAS_CUDNN TRUE)
    message(STATUS "cuDNN ${CUDNN_VERSION}: building convolutions for GPUs")
  else()
    set(lockstep_cudnn_missing "the header cudnn_graph.h of cuDNN 9.8 or newer was not found (package libcudnn9-dev-cuda-${CUDAToolkit_VERSION_MAJOR}, or nvidia-cudnn-cu${CUDAToolkit_VERSION_MAJOR} on PyPI), or lies apart: set CUDNN_ROOT")
    message(STATUS "No convolutions for GPUs: ${lockstep_cudnn_missing}")
  endif()
endif()
set(LOCKSTEP_CUDNN_MISSING "${lockstep_cudnn_missing}" CACHE INTERNAL "Why convolutions for GPUs are not built")
set(LOCKSTEP_CUDA_MISSING "${lockstep_missing}" CACHE INTERNAL "Why the parts that need CUDA are not built")
set(LOCKSTEP_CUDA_COMPILER_MISSING "${lockstep_compiler_missing}" CACHE INTERNAL "Why the kernels for GPUs are not built")

# Puts the objects of the kernels and CUDA's static runtime into the library of a room, as one object in which the runtime's
# names are local. So a program that is linked with lockstep needs no libcudart, and may link any version of it for itself:
# neither can take the other's functions. Streams, events and memory are the driver's and known to every runtime of a process.
find_program(LOCKSTEP_GNU_LD NAMES ld.bfd ld)  # for clang, CMAKE_LINKER is lld, which lacks --force-group-allocation
mark_as_advanced(LOCKSTEP_GNU_LD)
function(lockstep_embed_cuda_runtime target)
  foreach(kernels ${ARGN})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${kernels}>)
  endforeach()
  target_compile_options(${target} PRIVATE -fno-lto)  # the linker below would not understand it
  set(runtime ${CMAKE_CURRENT_BINARY_DIR}/cuda_runtime.o)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/lockstep_cuda.o)
  add_custom_command(TARGET ${target} POST_BUILD
    # Without its section groups: of two of one name the linker keeps one only, and a program may have this runtime, too.
    COMMAND ${LOCKSTEP_GNU_LD} -r --force-group-allocation -o ${runtime} --whole-archive $<TARGET_FILE:CUDA::cudart_static>
    COMMAND ${LOCKSTEP_GNU_LD} -r -o ${object} ${runtime} --whole-archive $<TARGET_FILE:${target}>
    COMMAND ${CMAKE_OBJCOPY} --wildcard --localize-symbol=cuda* --localize-symbol=__cuda*
      --localize-symbol=libcudart_static* ${object}
    COMMAND ${CMAKE_COMMAND} -E rm $<TARGET_FILE:${target}>
    COMMAND ${CMAKE_AR} qcs $<TARGET_FILE:${target}> ${object}
    COMMENT "Putting CUDA's runtime into ${target}" VERBATIM)
endfunction()
