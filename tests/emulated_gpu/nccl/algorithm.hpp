// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace emulated_gpu {

/// Which of NCCL's two emulated algorithms a function may use.
struct Algorithms {
  bool ring = true;
  bool tree = true;
};

/// Returns the algorithms that a value of NCCL_ALGO allows for `function`, in lower case: "allreduce", "broadcast".
/// Lists for single functions come after one for all; "^" excludes what it names. Algorithms other than ring and tree
/// are ignored.
/// @source NCCL 2.28 User Guide, environment variables, NCCL_ALGO
Algorithms allowed_algorithms(std::string_view value, std::string_view function);

}  // namespace emulated_gpu
