# SPDX-License-Identifier: Apache-2.0
# These tests cover the assignment of GPUs to ranks.
emulated_program(mapped_rank SOURCES mapped_rank.cpp)
emulated_program(topo SOURCES $<TARGET_OBJECTS:topo> $<TARGET_OBJECTS:lockstep_cli> LINKS Boost::program_options)
file(READ ${LOCKSTEP_EMULATED_MACHINE} machine)
foreach(number RANGE 7)
  string(JSON gpu GET "${machine}" gpus ${number})
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/single/gpu${number}.json "{\"gpus\": [${gpu}]}\n")
endforeach()
emulated_program(mapping_test MAIN lockstep_test_main SOURCES mapping_test.cpp LINKS nlohmann_json::nlohmann_json
  DEFINITIONS ${mpiexec} LOCKSTEP_MAPPED_RANK="$<TARGET_FILE:emulated_mapped_rank>" LOCKSTEP_TOPO="$<TARGET_FILE:emulated_topo>"
    LOCKSTEP_SINGLE_GPUS="${CMAKE_CURRENT_BINARY_DIR}/single" LOCKSTEP_MACHINES="${CMAKE_CURRENT_SOURCE_DIR}/../machines")
emulated_test(mapping PROGRAM mapping_test SEEDS 2)
