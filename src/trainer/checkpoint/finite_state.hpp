// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "trainer/replica/store.hpp"

/// Looks for numbers in the tensors of a run that are infinite or NaN. Gradients are checked in each step, but an
/// update may overflow, and what is loaded may be damaged; operators do not always show it, as oneDNN's ReLU turns NaN
/// into 0.
namespace lockstep::trainer {

/// Elements of a tensor in a file.
struct ReadPart {
  std::string file;
  std::string tensor;
  std::int64_t first = 0;
  std::string remedy;  ///< what to do if an element is not finite, for the error
};
/// Lets rank 0 read elements, and gives them to all ranks. Collective.
/// @param to    memory of the host; overwritten
/// @param read  writes into `to`, on rank 0
/// @throws Error{corrupt} on every rank that names an element that is not finite; on every rank what `read` throws
void read_finite(ProcessGroup& group, const Buffer& to, const ReadPart& part, const std::function<void()>& read);

/// Checks all that a checkpoint would hold: parameters, EMA weights, optimizer state and running statistics.
/// Collective.
/// @param step  steps done in the run
/// @throws Error{diverged} on every rank that names a tensor, as checkpoints name it
void require_finite(ProcessGroup& group, const Store& store, std::int64_t step);

}  // namespace lockstep::trainer
