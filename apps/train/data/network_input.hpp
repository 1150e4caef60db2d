// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/train/options/options.hpp"
#include "lockstep/base/tensor_spec.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/platform/mpi/world.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::train {

/// What the pictures of a run were when they entered the network, and what its classes are called. It travels in each
/// checkpoint, so that a prediction needs no data of the run.
struct NetworkInput {
  std::vector<std::string> class_names;
  int channels = 3;
  vision::Size size;
  Normalization normalization;
  std::string transforms;  ///< for evaluation, as --augment takes them

  /// As texts for the section "input" of a checkpoint's `state.json`. Real numbers have the digits that give the same
  /// bits again.
  [[nodiscard]] std::map<std::string, std::string> notes() const;
  /// @throws Error{corrupt} that names the text that is missing or wrong
  static NetworkInput from(const std::map<std::string, std::string>& notes);
};

/// Returns the input of a data set whose "images" are bytes, with one label each; nothing for another one.
/// @param transforms  for evaluation, as --augment takes them
std::optional<NetworkInput> input_of(const data::Dataset& dataset, const std::string& transforms);

/// Reads the input of the run whose checkpoint --resume means. Rank 0 reads the file. Collective.
/// @throws Error on every rank if there is no such checkpoint, or the run was not about pictures
NetworkInput read_input_of_run(const World& world, const Options& options);

}  // namespace lockstep::train
