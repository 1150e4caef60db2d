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

/// What was found out about one contender at one size; the same on all ranks.
struct Measurement {
  std::string algorithm;
  Bytes bytes;
  Count count;  ///< elements per rank: of the buffer or of a part
  double median_seconds = 0;
  double min_seconds = 0;
  std::int64_t wrong = 0;  ///< elements, over all ranks and repetitions
};

/// How often each contender is measured.
struct Effort {
  int warmup = 2;           ///< rounds that do not count, at least 1
  int repetitions = 0;      ///< 0: as many as fit into `seconds`, from `min_repetitions` to 1000
  double seconds = 0.5;     ///< for each contender
  int min_repetitions = 5;  ///< for a median that is worth something
  Protocol protocol = Protocol::common_clock;
  bool yields = false;  ///< at the start line, to whoever shares the cores, as threads of the library that is measured
};

/// Times the contenders in turn, so that whatever else the machine does meets all of them alike, and in another order
/// each time, so that what one leaves in the caches is not always found by the same next. A repetition: rewrite the
/// buffers, line up (`StartLine`), the operation, which alone is timed, check the result. Its time is from the common
/// start until the slowest rank is done; by `Protocol::barrier`, the slowest rank's own time. Collective. Every program
/// that lockstep is compared with is timed by this function.
/// @param exercises  of one size; one for each contender, refilled before each of its operations, or one for all
/// @throws Error as the contenders and the ranks do
std::vector<Measurement> measure(Ranks& ranks, const Contenders& contenders, std::span<Exercise* const> exercises,
                                 const Effort& effort);

}  // namespace lockstep::comm_bench
