// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/train/run/run.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/trainer/trainer.hpp"

namespace lockstep::train {

/// Explains the algorithm that reduces each bucket, in the order in which backward fills them.
std::string explanation(const Options& options, const ProcessGroup& group, const trainer::Trainer& trainer);

/// Shows the operators of a step, for the largest leaf. All ranks measure at once, as they train at once. Collective.
void show_step(const RunContext& run, ops::Ops& ops);

}  // namespace lockstep::train
