// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

/// Skips the rest of a test for one of the reasons below: `LOCKSTEP_SKIP(gpu) << "there is none here"`. If the
/// environment variable LOCKSTEP_REQUIRE, a comma-separated list, contains the reason, the test fails instead.
/// - gpu: there is no GPU; no_gpu: there is one, but the test is about having none
/// - cuda: the kernels for GPUs are not built; cudnn: cuDNN or a library that it compiles with is missing
/// - namespaces: this machine does not allow hosts made of namespaces
/// - slurm: Slurm is not installed, or cannot be started here
/// - mnist, bccd, nuclei: the files of that data set are missing; device: a device file is missing
/// - memory: the test needs more memory than tests may use by default
/// - ulfm: the MPI library has no ULFM; mpi: its launcher does not support it
/// - threads: the MPI library allows more threads than the test can use
/// - thread_ids: this system has so many thread ids that a test cannot use them all up
/// - winograd: oneDNN has no Winograd convolutions for this processor
/// - bfloat16: oneDNN has no bfloat16 kernels for this processor
/// - blocked: oneDNN computes a convolution in a plain format on this processor
/// - descriptors: the sanitizer needs a file descriptor, and the test uses up all of them
/// - ipv6: this system has no IPv6
/// - ranks: the test has no meaning with this number of ranks
#define LOCKSTEP_SKIP(reason) GTEST_SKIP() << "[" #reason "] "

namespace lockstep::testing_support {

/// The exit code that CTest counts as "skipped".
inline constexpr int all_skipped = 77;

/// Keeps only the cases that are defined in the files of the argument `--files=a.cpp,b.cpp`, in an executable that
/// several CTest entries share. It is called after InitGoogleTest; a `--gtest_filter` takes precedence.
/// @throws std::runtime_error if the files contain no case
void select_files(int argc, char** argv);

/// Returns the exit code of the process. It is 1 if a case failed, if one was skipped for a reason in LOCKSTEP_REQUIRE
/// or without LOCKSTEP_SKIP, or if none ran; `all_skipped` if all were skipped; otherwise 0.
/// @param failed  what RUN_ALL_TESTS returned
int verdict(int failed);

}  // namespace lockstep::testing_support
