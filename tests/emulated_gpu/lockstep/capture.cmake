# SPDX-License-Identifier: Apache-2.0
# These tests cover operations and whole steps in graphs, and the example of it that users have.
emulated_program(capture_test MAIN lockstep_test_main SOURCES capture_test.cpp step_capture_test.cpp)
emulated_test(capture PROGRAM capture_test SEEDS 0 1 2 PROCESSORS 1)
if(LOCKSTEP_HAS_CUDA_COMPILER)  # the same tests on a real GPU
  lockstep_test(capture_test ALONE SOURCES capture_test.cpp step_capture_test.cpp DEPENDS ddp backends_nccl LINKS CUDA::cudart
    LABELS gpu)
endif()
emulated_cuda_sources(cuda_step ${PROJECT_SOURCE_DIR}/examples/cuda_step.cu)
emulated_program(cuda_step SOURCES ${cuda_step})
emulated_program(cuda_step_test MAIN lockstep_test_main SOURCES cuda_step_test.cpp
  DEFINITIONS ${mpiexec} LOCKSTEP_CUDA_STEP="$<TARGET_FILE:emulated_cuda_step>")
add_dependencies(emulated_cuda_step_test emulated_cuda_step)
emulated_test(cuda_step PROGRAM cuda_step_test SEEDS 1 2)
