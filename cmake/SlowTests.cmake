# SPDX-License-Identifier: Apache-2.0
# Tests with the label slow are left out by mpi-scripts/test.sh and run by continuous integration. The others take about seven
# minutes on two cores, and are chosen by what they find for their time:
#   units             all: most take less than a second, and the name of the one that fails says which part is wrong
#   contract          what every communicator and compute library promises, and the proofs of the algorithms in the simulator
#   random schedules  thousands of orders of operations: they find faults that need two operations or ranks at once
#   under mpiexec     each test on one number of ranks, which is 3 where it has that: 3 is no power of two, and one rank is in the middle
#   two hosts         every program on them, the launcher's command lines, a slow link, and a stopped rank, which must be named
#   emulated GPUs     communication, operators and steps
#   launch, install   the launcher's options; the installed library, used by the README's project and by all examples
# A slow test takes as long as many others, and these try most of what it tries.
set(lockstep_slow_tests
  # Whole runs of train with pictures of each workload, that are killed, stopped, resumed, or given wrong files, and of other programs with
  # all their options.
  # train.usage_test, train.failure_test, train.metrics_test and trainer.resume_test try the same parts in seconds.
  train[.]run_test train[.]restart_test train[.]faults train[.]interruption_test train[.]deadline_test train[.]input_files_test
  train[.]pictures_test train[.]boxes_test train[.]masks_test train[.]texts_test train[.]shards_test train[.]weights_test
  train[.]checkpoint_test train[.]balance_test train[.]stragglers_test apps[.]run_app_test comm_bench[.]program_test
  # Hosts under Slurm, in containers, with many kinds of defects, with ranks that hang or die, and with each workload. hosts.launch has the
  # launcher's options.
  hosts[.]cluster hosts[.]containers hosts[.]preflight hosts[.]hang hosts[.]death_test hosts[.]launch_workloads
  # Whole runs of programs on emulated GPUs. The steps of the same operators are not slow.
  emulated_gpu[.]train[._].* emulated_gpu[.]mapping[.].* emulated_gpu[.]cuda_step[.]seed2 emulated_gpu[.]comm_bench[.].*
  emulated_gpu[.]two_hosts[.].*
  # cuDNN's plans for every convolution, each public header alone, and scripts that wait for programs which fail.
  ops[.]cudnn_plans install[.]headers_alone install[.]restarts install[.]gpu_short
  # Tests that wait until a deadline passes, and the contract with compressed gradients, which backends.compressed_test has with
  # threads as ranks.
  backends[.]rank_death_test backends[.]compressed_mpi_test[.].* platform[.]missing_rank_test[.].*)
list(JOIN lockstep_slow_tests | lockstep_slow_tests)

add_custom_target(quick_tests)  # everything that the tests without the label need

# lockstep_sort_tests(TARGET test…) gives the label slow to the tests that the list names and to those that need a GPU. If one
# of the tests has not got it, quick_tests depends on the target, which may be empty.
function(lockstep_sort_tests target)
  foreach(test ${ARGN})
    get_property(labels TEST ${test} PROPERTY LABELS)
    if(test MATCHES "^(${lockstep_slow_tests})$" OR gpu IN_LIST labels)
      list(APPEND labels slow)
      set_property(TEST ${test} PROPERTY LABELS ${labels})
    endif()
    if(target AND NOT slow IN_LIST labels)
      add_dependencies(quick_tests ${target})
    endif()
  endforeach()
endfunction()
