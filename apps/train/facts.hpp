// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "apps/train/options.hpp"

namespace lockstep::train {

/// Returns what ranks compare before they start beside their options: the facts of any process, the instruction sets
/// and versions of the compute libraries, and kinds of GPUs if GPUs may be used. With --shards a difference that
/// changes bits does harm.
std::vector<Term> facts_to_compare(const Options& options);

}  // namespace lockstep::train
