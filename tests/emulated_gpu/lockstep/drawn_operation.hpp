// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lockstep/comm/collective.hpp"

namespace lockstep::on_emulated_gpus {

/// A slot is memory of the same length on every rank, which operations use as an operand.
inline constexpr std::int64_t slot_bytes = 3072;
using Contents = std::vector<std::vector<unsigned char>>;  // by slot

/// A part of a slot.
struct Region {
  int slot = -1;  ///< -1: no memory
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

/// A collective that is drawn alike on every rank. It uses integers, whose sums are the same in any order.
struct DrawnOperation {
  std::vector<int> members;
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::int32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;            ///< root, or the sender of a message
  int to = 0;              ///< receiver of a message
  std::int64_t count = 0;  ///< elements of the buffer or of each part
  std::int64_t offset = 0;
  int in = 0;
  int out = 0;  ///< equal to `in` if the operation is in place
  /// Elements that one member sends to another; one row if all ranks have the same parts.
  std::vector<std::vector<Count>> parts;

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  /// Returns the position of a rank among the members, or -1.
  [[nodiscard]] int place_of(int rank) const;
  [[nodiscard]] bool takes_part(int member) const;
  [[nodiscard]] Region input_of(int member) const;
  [[nodiscard]] Region output_of(int member) const;
  /// Returns what the member submits, with the memory of its slots. @param received  keeps the received counts
  [[nodiscard]] Collective collective(int member, const std::vector<void*>& slots, std::vector<Count>& received) const;
  /// Applies the operation to the ranks' contents.
  void apply(std::vector<Contents>& of_rank) const;
  [[nodiscard]] std::string describe() const;

 private:
  [[nodiscard]] std::int64_t part(int from, int to) const;
  [[nodiscard]] Region region(int slot, std::int64_t first, std::int64_t elements) const;
  [[nodiscard]] std::int64_t elements_before(int member) const;
  [[nodiscard]] std::int64_t elements_of_all() const;
};

/// @param slots  two different slots that it may use
DrawnOperation draw_operation(std::mt19937_64& random, const std::vector<int>& members, int in, int out);

}  // namespace lockstep::on_emulated_gpus
