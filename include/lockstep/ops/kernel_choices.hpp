// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/ops/format.hpp"
#include "lockstep/ops/operators.hpp"

namespace lockstep::ops {

/// The algorithm of a compute library for each pass of an operator, each a word of that library. oneDNN's words are
/// "direct" (sums of products) and "winograd" (fewer products, of transformed windows, but larger rounding errors).
struct KernelAlgorithms {
  std::string library;  ///< `Ops::name`
  std::string forward;  ///< also for `infer`
  std::string backward_data;
  std::string backward_weights;

  friend bool operator==(const KernelAlgorithms&, const KernelAlgorithms&) = default;
};

/// The algorithms that were chosen for operators. The library's own rule applies to all others. This is a value type:
/// ranks compare it, checkpoints hold it.
class KernelChoices {
 public:
  /// Sets the algorithms for this operator at this batch size, and overwrites earlier ones.
  /// @param key    as returned by `key_of`
  /// @param batch  batch size of a leaf; positive
  void set(const std::string& key, std::int64_t batch, const KernelAlgorithms& algorithms) {
    by_key_[key][batch] = algorithms;
  }
  /// Returns the choice for exactly this batch size, or null if there is none.
  [[nodiscard]] const KernelAlgorithms* at(const std::string& key, std::int64_t batch) const;
  /// Returns the choice for the nearest batch size, or null if the operator has none. Of two equally near ones the
  /// smaller is taken, so that ranks with one more sample compute alike.
  [[nodiscard]] const KernelAlgorithms* find(const std::string& key, std::int64_t batch) const;
  /// Adds all choices of the other, which win.
  void add(const KernelChoices& other);

  [[nodiscard]] bool empty() const { return by_key_.empty(); }
  [[nodiscard]] std::size_t size() const;
  /// Returns a hash of `text()`, as 16 hexadecimal digits.
  [[nodiscard]] std::string hash() const;
  /// Returns the choices for a library's kernels.
  [[nodiscard]] KernelChoices of(std::string_view library) const;
  /// Returns a line for each choice: batch size, library, algorithms of forward, backward data and backward weights,
  /// key.
  [[nodiscard]] std::string text() const;
  /// Parses what `text` returned. @throws Error{corrupt} naming the source, the line and the value
  static KernelChoices parse(const std::string& text, const std::string& source);

  /// Checks that a library has all algorithms that were chosen.
  /// @param algorithms  the words of the library
  /// @param reason      why the library has no others
  /// @throws Error{unsupported} with the reason, naming the first operator for which another one was chosen
  void require(std::string_view library, std::span<const std::string_view> algorithms, const std::string& reason) const;

  friend bool operator==(const KernelChoices&, const KernelChoices&) = default;

 private:
  std::map<std::string, std::map<std::int64_t, KernelAlgorithms>> by_key_;
};

/// Returns a key of everything that decides which algorithms an operator's kernels can have and how fast they are,
/// except the batch size, the input formats and the machine. It does not contain the number of ranks. It is empty for
/// operators without a choice.
std::string key_of(const Operator& op, Formats inputs);

/// The contents of a file of choices: the choices by the conditions under which they were measured, one line of text
/// each.
using KernelChoicesByConditions = std::map<std::string, KernelChoices>;
/// Parses the contents of a file. @throws Error{corrupt} naming the file, the line and the value
KernelChoicesByConditions parse_choices_file(const std::string& text, const std::string& file);
/// Returns the contents of a file that `parse_choices_file` accepts.
std::string format_choices_file(const KernelChoicesByConditions& choices);

}  // namespace lockstep::ops
