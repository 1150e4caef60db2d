// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// How a convolution multiplies.
enum class Algorithm {
  direct,    ///< sums of products
  winograd,  ///< fewer products, of transformed windows, and more rounding
};

/// One for each pass of an operator.
struct Algorithms {
  Algorithm forward = Algorithm::direct;  ///< also of `infer`
  Algorithm backward_data = Algorithm::direct;
  Algorithm backward_weights = Algorithm::direct;

  friend bool operator==(const Algorithms&, const Algorithms&) = default;
};

/// Which algorithms operators are computed by, as somebody has found out; the back end's own rule holds for all others.
/// A value: ranks compare it, checkpoints hold it.
class Choices {
 public:
  /// Overwrites what there is for this operator at this batch.
  /// @param key    as of `key_of`
  /// @param batch  of the leaf, positive
  void set(const std::string& key, std::int64_t batch, const Algorithms& algorithms) {
    by_key_[key][batch] = algorithms;
  }
  /// What has been found for exactly this batch; null: nothing.
  [[nodiscard]] const Algorithms* at(const std::string& key, std::int64_t batch) const;
  /// Of the nearest batch, the smaller of two, so that ranks with one sample more do not compute otherwise; null where
  /// nothing is known of the operator.
  [[nodiscard]] const Algorithms* find(const std::string& key, std::int64_t batch) const;
  /// Takes over all that the other has.
  void add(const Choices& other);

  [[nodiscard]] bool empty() const { return by_key_.empty(); }
  [[nodiscard]] std::size_t size() const;
  /// The same for equal choices only. As 16 hexadecimal digits.
  [[nodiscard]] std::string hash() const;
  /// A line for each: batch, algorithms of forward, backward data and backward weights, key.
  [[nodiscard]] std::string text() const;
  /// What `text` gave. @throws Error{corrupt} naming the source, the line and the value
  static Choices parse(const std::string& text, const std::string& source);

  /// @throws Error{unsupported} with the reason, naming the first operator that is to be computed by Winograd's
  ///         algorithm
  void refuse_winograd(const std::string& reason) const;

  friend bool operator==(const Choices&, const Choices&) = default;

 private:
  std::map<std::string, std::map<std::int64_t, Algorithms>> by_key_;
};

/// All that decides which algorithms an operator's kernels can have and how fast they are, but for the batch, the
/// formats that it finds and the machine. It has no number of ranks. Empty for operators without a choice.
std::string key_of(const Operator& op, std::span<const Format> inputs);

/// What a file of choices has: those found under some conditions, by these conditions, one line of text each.
using ChoicesByConditions = std::map<std::string, Choices>;
/// @throws Error{corrupt} naming the file, the line and the value
ChoicesByConditions parse_choices_file(const std::string& text, const std::string& file);
std::string format_choices_file(const ChoicesByConditions& choices);

}  // namespace lockstep::ops
