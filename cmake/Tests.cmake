# SPDX-License-Identifier: Apache-2.0
# lockstep_test(ring_test SOURCES ring_test.cpp DEPENDS collectives)             one process
# lockstep_test(ring_test … RANKS 1 2 3 4 LABELS gpu TIMEOUT 120 ARGUMENTS …)    once per rank count, under mpiexec
# PROCESSORS 2 keeps others from running beside a test that watches the clock or whose threads all compute. Starting and
# ending ranks is mostly waiting, so two tests under mpiexec may share the cores.
# DEFINITIONS are what the test is compiled with. PROGRAMS are targets that it starts, under LOCKSTEP_MPIEXEC: that is
# waiting, more than half of it, so such a test counts for half a processor. CTest's -j is therefore twice the cores, and one
# more, for what the others wait. WAITS is for any other test that computes for less than a third of its time, because it waits
# for deadlines, starts and ends.
# ALONE is for a test that replaces what a whole program has one of, such as operator new, MPI's functions or a library.
# CTest names them <room>.<name> and <room>.<name>.np<ranks>; one room a folder of tests/. Some have the label slow
# (SlowTests.cmake): those that it names, and all numbers of ranks but one, which is 3 or else the first.
include(SlowTests)
set(LOCKSTEP_MPIEXEC_FLAGS "" CACHE STRING "Further flags for mpiexec in tests")
# An executable a test is quick to build for whoever works on it. All together are quicker where all are wanted: a room's
# files are compiled together, so that they parse headers once, and linked once. Each CTest entry then runs the cases of
# its own files (--files, see tests/support).
option(LOCKSTEP_MERGE_TESTS "One test executable a room, and one for its tests under mpiexec" OFF)

# More ranks than cores, as root, on one machine: what each MPI library wants to hear for that. Other libraries ignore it.
set(lockstep_mpi_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1
  # After an abort, Open MPI's mpirun otherwise sleeps twice for a second, to let ranks end by themselves.
  OMPI_MCA_odls_base_sigkill_timeout=0)

# A program that tests start.
function(lockstep_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} lockstep_flags)
  lockstep_optimize_test(${name})
endfunction()

option(LOCKSTEP_OPTIMIZE_TESTS "Optimize tests as libraries are; without it gcc compiles them in half the time" ON)
# What users get is optimized; what tries it need not be. COMPUTES is for libraries in which tests spend most of their time. Folders
# whose tests do that themselves set LOCKSTEP_OPTIMIZE_TESTS.
function(lockstep_optimize_test target)
  cmake_parse_arguments(ARG "COMPUTES" "" "" ${ARGN})
  if(NOT LOCKSTEP_OPTIMIZE_TESTS AND NOT ARG_COMPUTES)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  elseif(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# Of tests that are all built together, GoogleTest's and what else nearly all include is parsed once.
function(lockstep_precompile_test_headers target)
  if(LOCKSTEP_MERGE_TESTS AND "${LOCKSTEP_OPTIMIZE_TESTS}" STREQUAL "$CACHE{LOCKSTEP_OPTIMIZE_TESTS}")  # with the same options only
    target_precompile_headers(${target} REUSE_FROM lockstep_test_main)
    # As it was compiled itself; some MPI libraries' own flags have it, too.
    target_compile_options(${target} PRIVATE -pthread)
    # gcc 12 takes strings for shorter than what is copied there, where they come out of a precompiled header.
    target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
  endif()
endfunction()

# The executable of one test, or what a test adds to the one that it shares.
function(lockstep_test_executable target main)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINKS;DEFINITIONS;PROGRAMS" ${ARGN})
  if(NOT TARGET ${target})
    add_executable(${target} ${ARG_SOURCES})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PRIVATE lockstep_flags ${main})
    lockstep_optimize_test(${target})
    lockstep_precompile_test_headers(${target})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${LOCKSTEP_MERGE_TESTS} UNITY_BUILD_BATCH_SIZE 0)
  else()
    target_sources(${target} PRIVATE ${ARG_SOURCES})
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND lockstep::)
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} ${ARG_LINKS})
  target_compile_definitions(${target} PRIVATE ${ARG_DEFINITIONS})
  if(ARG_PROGRAMS)
    add_dependencies(${target} ${ARG_PROGRAMS})
  endif()
endfunction()

# What CTest has not timed yet, as in a fresh build folder, it starts in the order of these costs, so that at the end only short
# tests are left that need one core. They are seconds in a run of all tests; those of a test under mpiexec are of each number of
# ranks. Tests that need both cores come first, while there still are tests that mostly wait: beside them there is room for
# nothing else.
set(lockstep_costs train.run_test=60 apps.run_app_test=45 ops.cudnn_plans=40 ops.conformance_test=35 train.input_files_test=30
  train.checkpoint_test=30 trainer.shards_test=22 train.restart_test=75 train.deadline_test=20 trainer.equivalence_test=20 nn.pytorch_test=20
  train.boxes_test=25 train.masks_test=15 train.texts_test=25 train.shards_test=20 train.interruption_test=15 train.failure_test=15 trainer.allocation_test=10 ops.rows_test=10
  backends.local_test=200 backends.mpi_contract_test=15 schedules.schedules_test=38 hosts.hosts_test=20 comm_bench.program_test=19
  backends.mismatch_test=10 collectives.plans_test=9 collectives.succession_test=8 nn.nn_test=8)

function(lockstep_test name)
  cmake_parse_arguments(ARG "ALONE;WAITS" "TIMEOUT;PROCESSORS"
    "SOURCES;DEPENDS;LINKS;DEFINITIONS;PROGRAMS;RANKS;LABELS;ARGUMENTS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(LOCKSTEP_SANITIZE)
    math(EXPR ARG_TIMEOUT "10 * ${ARG_TIMEOUT}")
  endif()
  set(kind "")
  set(label unit)
  set(halves 2)
  set(environment "")
  if(ARG_RANKS)
    set(kind mpi_)
    set(label mpi)
    list(APPEND ARG_DEPENDS mpi)
  endif()
  if(ARG_PROGRAMS)
    list(APPEND ARG_DEFINITIONS LOCKSTEP_MPIEXEC="${MPIEXEC_EXECUTABLE} ${LOCKSTEP_MPIEXEC_FLAGS}")
  endif()
  if(ARG_RANKS OR ARG_PROGRAMS)
    set(environment "${lockstep_mpi_environment}")
  endif()
  if(ARG_PROCESSORS)
    math(EXPR halves "2 * ${ARG_PROCESSORS}")
  elseif(ARG_PROGRAMS OR ARG_WAITS)
    set(halves 1)
  endif()
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(target ${room}_${name})
  if(LOCKSTEP_MERGE_TESTS AND NOT ARG_ALONE)
    set(target ${room}_${kind}tests)
    list(JOIN ARG_SOURCES , files)
    list(APPEND ARG_ARGUMENTS --files=${files})
  endif()
  lockstep_test_executable(${target} lockstep_${kind}test_main SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS}
    LINKS ${ARG_LINKS} DEFINITIONS ${ARG_DEFINITIONS} PROGRAMS ${ARG_PROGRAMS})
  if(tsan IN_LIST ARG_LABELS)
    add_dependencies(tsan_tests ${target})
  endif()

  set(tests ${room}.${name})
  set(command $<TARGET_FILE:${target}> ${ARG_ARGUMENTS})
  if(ARG_RANKS)
    set(tests "")
    list(GET ARG_RANKS 0 usual_ranks)
    if(3 IN_LIST ARG_RANKS)
      set(usual_ranks 3)
    endif()
    separate_arguments(flags UNIX_COMMAND "${LOCKSTEP_MPIEXEC_FLAGS}")
    foreach(ranks ${ARG_RANKS})
      list(APPEND tests ${room}.${name}.np${ranks})
      add_test(NAME ${room}.${name}.np${ranks}
        COMMAND ${MPIEXEC_EXECUTABLE} ${flags} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${command})
    endforeach()
  else()
    add_test(NAME ${tests} COMMAND ${command})
  endif()
  set_tests_properties(${tests} PROPERTIES PROCESSORS ${halves} TIMEOUT ${ARG_TIMEOUT} LABELS "${label};${ARG_LABELS}"
    SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
  foreach(ranks ${ARG_RANKS})
    if(NOT ranks EQUAL usual_ranks)
      set_property(TEST ${room}.${name}.np${ranks} APPEND PROPERTY LABELS slow)
    endif()
  endforeach()
  lockstep_sort_tests(${target} ${tests})
  set(cost 0)
  if(lockstep_costs MATCHES "(^|;)${room}[.]${name}=([0-9]+)")
    set(cost ${CMAKE_MATCH_2})
  endif()
  if(halves GREATER 2)
    math(EXPR cost "${cost} + 1000")
  endif()
  set_tests_properties(${tests} PROPERTIES COST ${cost})
endfunction()
