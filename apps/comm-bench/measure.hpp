// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/comm-bench/contender.hpp"
#include "apps/comm-bench/exercise.hpp"
#include "apps/comm-bench/ranks.hpp"
#include "apps/comm-bench/start_line.hpp"

namespace lockstep::comm_bench {

/// The result for one contender at one size; the same on all ranks.
struct Measurement {
  std::string algorithm;
  Bytes bytes;
  Count count;  ///< elements per rank, of the buffer or of a part
  double median_seconds = 0;
  double min_seconds = 0;
  std::int64_t wrong = 0;  ///< number of wrong elements, over all ranks and repetitions
};

/// How often each contender is measured.
struct Effort {
  int warmup = 2;           ///< rounds that are not measured, at least 1
  int repetitions = 0;      ///< 0: as many as fit into `seconds`, from `min_repetitions` to 1000
  double seconds = 0.5;     ///< for each contender
  int min_repetitions = 5;  ///< the fewest for a meaningful median
  Protocol protocol = Protocol::common_clock;
  bool yields = false;  ///< whether ranks yield at the start line, to threads of the measured library
};

/// Times the contenders in turn, so that other load on the machine affects all of them alike. The order differs in each
/// round, so that no contender always finds the caches of the same predecessor. A repetition rewrites the buffers,
/// lines up (`StartLine`), runs the operation, which alone is timed, and checks the result. Its time is from the common
/// start until the slowest rank is done; with `Protocol::barrier`, it is the slowest rank's own time. Collective. Every
/// program that lockstep is compared with is timed by this function.
/// @param exercises  exercises of one size: one for each contender, or one for all; refilled before each operation
/// @throws Error as the contenders and the ranks do
std::vector<Measurement> measure(Ranks& ranks, const Contenders& contenders, std::span<Exercise* const> exercises,
                                 const Effort& effort);

}  // namespace lockstep::comm_bench
