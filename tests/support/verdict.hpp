// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

/// Leaves the rest of a test out for a reason of these: `LOCKSTEP_SKIP(gpu) << "there is none here"`. Where the
/// environment variable LOCKSTEP_REQUIRE, a comma-separated list, names the reason, the test fails instead.
/// - gpu: there is no GPU; no_gpu: there is one, and the test is about having none
/// - cuda: kernels for GPUs are not built
/// - namespaces: hosts cannot be made of namespaces here
/// - mnist: MNIST's files are not there; device: a device file is not there
/// - memory: it takes more memory than one may take unasked
/// - mpi: the MPI library's launcher cannot do it; threads: the MPI library allows more threads than the test can use
/// - winograd: oneDNN has no Winograd's convolutions for this processor
/// - bfloat16: oneDNN has no kernels of bfloat16 for this processor
/// - ranks: it says nothing at this number of ranks
#define LOCKSTEP_SKIP(reason) GTEST_SKIP() << "[" #reason "] "

namespace lockstep::testing_support {

/// What CTest takes for "skipped".
inline constexpr int all_skipped = 77;

/// Of an executable that several CTest entries share, keeps the cases that are defined in the files that the argument
/// `--files=a.cpp,b.cpp` names. To be called after InitGoogleTest; a `--gtest_filter` goes before it.
/// @throws std::runtime_error where the files hold no case
void select_files(int argc, char** argv);

/// What the process shall return: 1 where a case failed, was left out for a reason that LOCKSTEP_REQUIRE names or by
/// other means than LOCKSTEP_SKIP, or where none ran; `all_skipped` where all were left out; else 0.
/// @param failed  what RUN_ALL_TESTS returned
int verdict(int failed);

}  // namespace lockstep::testing_support
