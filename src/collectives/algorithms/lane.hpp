// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "collectives/plan/plan.hpp"
#include "lockstep/base/cluster_shape.hpp"

namespace lockstep::collectives {

/// Maps the steps of a plan for one slice, between the ranks of a lane, to the ranks and offsets of the whole
/// collective.
class Lane {
 public:
  Lane(const ClusterShape& shape, int lane, std::int64_t offset) : offset_(offset) {
    for (int node = 0; node < shape.nodes(); ++node)
      ranks_.push_back(shape.ranks_on(node)[static_cast<std::size_t>(lane)]);
  }

  [[nodiscard]] Step translate(Step step) const {
    std::visit(
        [this](auto& s) {
          if constexpr (requires { s.peer; }) s.peer = rank(s.peer);
          if constexpr (requires { s.own.offset; }) move(s.own);
          if constexpr (requires { s.to.offset; }) move(s.to);
          if constexpr (requires { s.from.offset; }) move(s.from);
          if constexpr (std::is_same_v<decltype(s), Combine&>)
            for (auto* operands : {&s.to, &s.from})
              for (NodeRange& operand : *operands) move(operand.range);
        },
        step);
    return step;
  }

 private:
  [[nodiscard]] int rank(int node) const { return ranks_[static_cast<std::size_t>(node)]; }
  void move(Range& range) const {
    if (range.memory == Memory::output) range.offset += offset_;
  }

  std::vector<int> ranks_;
  std::int64_t offset_;
};

}  // namespace lockstep::collectives
