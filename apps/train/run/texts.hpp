// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/model/computation.hpp"
#include "apps/train/run/run.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/observe/events.hpp"
#include "lockstep/trainer/trainer.hpp"

/// What a run tells about itself.
namespace lockstep::train {

/// Returns the lines before the first step, which say what is trained and how.
/// @param columns  the length that no line exceeds
std::string header_text(const RunContext& run, const Computation& computation, std::size_t columns);

/// Says how a GPU's memory is used; empty on CPUs.
std::string memory_text(const trainer::Trainer& trainer, std::size_t columns);

/// Returns the result of an evaluation of this many samples.
std::string evaluation_text(std::vector<observe::MetricValue> values, std::int64_t samples);

/// What the trainer does not know about a run.
struct Effort {
  double seconds = 0;           ///< since the program's start
  std::int64_t steps = 0;       ///< since the program's start
  std::int64_t recoveries = 0;  ///< how often the run has gone on without ranks that had died
  bool lost_metrics = false;    ///< whether the metrics file lacks events
};

/// Summarizes a run, whether or not it was stopped.
std::string summary_text(const RunContext& context, const trainer::Trainer& trainer, const Effort& effort);

/// Explains the algorithm that reduces each bucket, in the order in which backward fills them.
std::string explanation(const Options& options, const ProcessGroup& group, const trainer::Trainer& trainer);

/// Shows the operators of a step, for the largest leaf. All ranks measure at once, as they train at once. Collective.
void show_step(const RunContext& run, ops::Ops& ops);

/// Returns the SHA-256 of the elements of all tensors as they are in memory, in the layout's order and without the
/// padding between them, in hexadecimal. Equal weights have equal checksums, however they were computed.
/// @param flat  in the layout, in host memory
std::string sha256(const Layout& layout, const Buffer& flat);

}  // namespace lockstep::train
