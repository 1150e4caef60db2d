// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// The algorithm of a convolution.
enum class Algorithm {
  direct,    ///< sums of products
  winograd,  ///< fewer products, of transformed windows, but larger rounding errors
};

/// The algorithm for each pass of an operator.
struct Algorithms {
  Algorithm forward = Algorithm::direct;  ///< also for `infer`
  Algorithm backward_data = Algorithm::direct;
  Algorithm backward_weights = Algorithm::direct;

  friend bool operator==(const Algorithms&, const Algorithms&) = default;
};

/// The algorithms that were chosen for operators. The back end's own rule applies to all others. This is a value type:
/// ranks compare it, checkpoints hold it.
class Choices {
 public:
  /// Sets the algorithms for this operator at this batch size, and overwrites earlier ones.
  /// @param key    as returned by `key_of`
  /// @param batch  batch size of a leaf; positive
  void set(const std::string& key, std::int64_t batch, const Algorithms& algorithms) {
    by_key_[key][batch] = algorithms;
  }
  /// Returns the choice for exactly this batch size, or null if there is none.
  [[nodiscard]] const Algorithms* at(const std::string& key, std::int64_t batch) const;
  /// Returns the choice for the nearest batch size, or null if the operator has none. Of two equally near ones the
  /// smaller is taken, so that ranks with one more sample compute alike.
  [[nodiscard]] const Algorithms* find(const std::string& key, std::int64_t batch) const;
  /// Adds all choices of the other, which win.
  void add(const Choices& other);

  [[nodiscard]] bool empty() const { return by_key_.empty(); }
  [[nodiscard]] std::size_t size() const;
  /// Returns a hash of `text()`, as 16 hexadecimal digits.
  [[nodiscard]] std::string hash() const;
  /// Returns a line for each choice: batch size, algorithms of forward, backward data and backward weights, key.
  [[nodiscard]] std::string text() const;
  /// Parses what `text` returned. @throws Error{corrupt} naming the source, the line and the value
  static Choices parse(const std::string& text, const std::string& source);

  /// @throws Error{unsupported} with the reason, naming the first operator for which Winograd's algorithm was chosen
  void refuse_winograd(const std::string& reason) const;

  friend bool operator==(const Choices&, const Choices&) = default;

 private:
  std::map<std::string, std::map<std::int64_t, Algorithms>> by_key_;
};

/// Returns a key of everything that decides which algorithms an operator's kernels can have and how fast they are,
/// except the batch size, the input formats and the machine. It does not contain the number of ranks. It is empty for
/// operators without a choice.
std::string key_of(const Operator& op, std::span<const Format> inputs);

/// The contents of a file of choices: the choices by the conditions under which they were measured, one line of text
/// each.
using ChoicesByConditions = std::map<std::string, Choices>;
/// @throws Error{corrupt} naming the file, the line and the value
ChoicesByConditions parse_choices_file(const std::string& text, const std::string& file);
std::string format_choices_file(const ChoicesByConditions& choices);

}  // namespace lockstep::ops
