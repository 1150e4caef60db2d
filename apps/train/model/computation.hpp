// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/train/model/model.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::train {

/// What computes the model on this rank.
struct Computation {
  std::unique_ptr<ops::Ops> ops;
  std::string library;  ///< the name of the compute library for users
  std::string kernels;  ///< on rank 0, a line about --kernels for people; empty if that was not given
};

/// Returns the samples of the largest leaf of a step: of a rank's, or of its largest shard or micro-batch.
std::int64_t largest_leaf(const Options& options, Count batch, int ranks);

/// Makes the compute library of the model's device, and lets it use the algorithms that the file of --kernels has for
/// this machine, number of threads and leaf. Rank 0 reads the file, measures and adds what is missing; the others sleep
/// meanwhile. Collective.
/// @throws on every rank Error{io | corrupt} with the file, and Error{unsupported} if a rank cannot use an algorithm;
///         as ops::make_cuda_ops
Computation prepare_computation(const Cluster& cluster, const Options& options, const Data& data,
                                const ModelOnDevice& model, const ProcessGroup& group, Console& console);

}  // namespace lockstep::train
