// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace emulated_gpu {

/// Which of NCCL's two algorithms that are emulated a function may take.
struct Algorithms {
  bool ring = true;
  bool tree = true;
};

/// What a value of NCCL_ALGO leaves to `function`, in lower case as there: "allreduce", "broadcast". Lists for single
/// functions come behind one for all; "^" leaves out what it names. Other algorithms than ring and tree do not count.
/// @source NCCL 2.28 User Guide, environment variables, NCCL_ALGO
Algorithms allowed_algorithms(std::string_view value, std::string_view function);

}  // namespace emulated_gpu
