// SPDX-License-Identifier: Apache-2.0
// Explains why a block's threads can never continue.
#include <algorithm>
#include <sstream>

#include "emulated_gpu/kernel/multiprocessor.hpp"
#include "emulated_gpu/kernel/source_line.hpp"

namespace emulated_gpu {

std::string Multiprocessor::describe_wait(const Thread& thread) {
  if (thread.is_done) return "which has ended";
  std::ostringstream text;
  text << "which waits in " << thread.function;
  if (thread.waits == Wait::lanes) text << " with mask 0x" << std::hex << thread.mask << std::dec;
  text << " at " << source_line(thread.place);
  return text.str();
}

void Multiprocessor::explain_why_stuck() {
  const auto end = threads_.begin() + count_;
  const auto find = [&](Wait wait) {
    return std::find_if(threads_.begin(), end, [=](const Thread& one) { return !one.is_done && one.waits == wait; });
  };
  if (const auto waiting = find(Wait::lanes); waiting != end) explain_missing_lane(*waiting);
  explain_divergence(*find(Wait::block));
}

void Multiprocessor::explain_missing_lane(const Thread& waiting) {
  now_.number = waiting.number;
  const unsigned first = waiting.number / lanes_of_warp * lanes_of_warp;
  std::ostringstream mask;
  mask << " with mask 0x" << std::hex << waiting.mask;
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
    const Thread& other = threads_[first + lane];
    if ((waiting.mask >> lane & 1U) == 0) continue;
    if (!other.is_done && other.waits == Wait::lanes && other.mask == waiting.mask &&
        std::string_view(other.function) == waiting.function)
      continue;
    violate(std::string("waits in ") + waiting.function + mask.str() + " for thread " + index_of(other.number) + ", " +
                describe_wait(other),
            source_line(waiting.place));
  }
  violate(std::string("waits in ") + waiting.function + mask.str(), source_line(waiting.place));
}

void Multiprocessor::explain_divergence(const Thread& waiting) {
  now_.number = waiting.number;
  const auto other = std::find_if(threads_.begin(), threads_.begin() + count_,
                                  [&](const Thread& one) { return !is_at_barrier(one, waiting); });
  violate(std::string("waits in ") + waiting.function + " for thread " + index_of(other->number) + ", " +
              describe_wait(*other),
          source_line(waiting.place));
}

}  // namespace emulated_gpu
