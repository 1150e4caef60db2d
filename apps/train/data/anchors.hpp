// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "apps/train/data/data.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::train {

/// The anchors that weights were trained with, as `nn::DataSpec::anchors`.
struct AnchorsOfWeights {
  std::vector<double> sizes;       ///< empty: not known
  bool are_of_checkpoint = false;  ///< whether the run goes on from their checkpoint
};

/// Reads the anchors of the checkpoint that the run resumes, evaluates or predicts with, or of its initial weights.
/// Rank 0 reads the file. Collective.
/// @return nothing if there is no such file, or it does not say it, or the model has no anchors
AnchorsOfWeights read_anchors_of_run(const World& world, const Options& options, const nn::Models& models);

/// Decides the anchors of the run's model (--anchors). Not collective.
/// @throws UsageError if the option does not suit the model
Anchors choose_anchors(const Options& options, const nn::Models& models, const Data& data,
                       const AnchorsOfWeights& of_weights);

}  // namespace lockstep::train
