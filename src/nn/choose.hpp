// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/nn/model.hpp"
#include "nn/contest.hpp"
#include "ops/choices.hpp"

namespace lockstep::nn {

/// What algorithms are chosen for.
struct ChooseOptions {
  DType dtype = DType::float32;
  std::int64_t samples = 1;   ///< of a leaf
  bool synchronized = false;  ///< whether batch norm takes mean and variance over several leaves
  Passes passes;
  double seconds = 10;  ///< of measuring, at most, but for the turn that is under way then
  ContestRules rules;
};

/// What has been chosen, and how.
struct Chosen {
  ops::Choices choices;  ///< of the graph's operators at this batch and of no others
  int known = 0;         ///< operators that differ, of which it was known before
  int measured = 0;      ///< and those whose candidates have been measured now
  int left = 0;          ///< and those left to the rule, because time was over
  double seconds = 0;    ///< of measuring
};

/// Measures the candidates of the operators that a graph consists of after its passes, on drawn values: each pass by
/// itself, in turn, the operators with most to do first. A candidate has the formats of the back end's rule, so that
/// what is found of one operator does not depend on what is found of another. `ops` makes kernels by what it did
/// before, afterwards.
/// @param known  what need not be measured again
/// @throws as Ops::make
Chosen choose_algorithms(const Graph& graph, ops::Ops& ops, const ChooseOptions& options, const ops::Choices& known);

}  // namespace lockstep::nn
