# SPDX-License-Identifier: Apache-2.0
# lockstep_test(ring_test SOURCES ring_test.cpp DEPENDS collectives)             one process
# lockstep_test(ring_test … RANKS 1 2 3 4 LABELS gpu TIMEOUT 120 ARGUMENTS …)    once per rank count, under mpiexec
# PROCESSORS 2 keeps others from running beside a test whose threads wait for each other.
# CTest names them <room>.<name> and <room>.<name>.np<ranks>; one room a folder of tests/.
set(LOCKSTEP_MPIEXEC_FLAGS "" CACHE STRING "Further flags for mpiexec in tests")

# More ranks than cores, as root, on one machine: what each MPI library wants to hear for that. Other libraries ignore it.
set(lockstep_mpi_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1)

function(lockstep_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "SOURCES;DEPENDS;LINKS;RANKS;LABELS;ARGUMENTS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(LOCKSTEP_SANITIZE)
    math(EXPR ARG_TIMEOUT "10 * ${ARG_TIMEOUT}")
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(target ${room}_${name})
  add_executable(${target} ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(${target} PRIVATE lockstep::${dependency})
  endforeach()
  target_link_libraries(${target} PRIVATE lockstep_flags ${ARG_LINKS})
  if(ARG_RANKS)
    target_link_libraries(${target} PRIVATE lockstep_mpi_test_main)
    separate_arguments(flags UNIX_COMMAND "${LOCKSTEP_MPIEXEC_FLAGS}")
    foreach(ranks ${ARG_RANKS})
      set(test ${room}.${name}.np${ranks})
      add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${flags} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
        $<TARGET_FILE:${target}> ${ARG_ARGUMENTS})
      set_tests_properties(${test} PROPERTIES PROCESSORS 2 TIMEOUT ${ARG_TIMEOUT} LABELS "mpi;${ARG_LABELS}"
        ENVIRONMENT "${lockstep_mpi_environment}")
    endforeach()
  else()
    target_link_libraries(${target} PRIVATE lockstep_test_main)
    add_test(NAME ${room}.${name} COMMAND ${target} ${ARG_ARGUMENTS})
    set_tests_properties(${room}.${name} PROPERTIES PROCESSORS ${ARG_PROCESSORS} TIMEOUT ${ARG_TIMEOUT} LABELS "unit;${ARG_LABELS}")
  endif()
endfunction()
