// SPDX-License-Identifier: Apache-2.0
#include "workloads/finding.hpp"

namespace lockstep::workloads {
namespace {

vision::Size input_of(const std::vector<TensorSpec>& tensors) {
  const auto& images = tensors.front().extent;
  return {.width = static_cast<int>(images[2]), .height = static_cast<int>(images[1])};
}

}  // namespace

std::vector<vision::Size> input_sizes(const data::Dataset& evaluated) {
  std::vector<vision::Size> sizes;
  for (const std::vector<TensorSpec>& tensors : evaluated.extents()) sizes.push_back(input_of(tensors));
  for (const data::EvaluationGroup& group : evaluated.evaluation_groups()) sizes.push_back(input_of(group.tensors));
  return sizes;
}

}  // namespace lockstep::workloads
