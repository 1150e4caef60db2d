// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <iterator>
#include <vector>

namespace lockstep::vision {

/// Reads a stream in blocks, and counts its lines. Iterators of it are all at the same place, as those of a stream are.
class CountedInput {
 public:
  explicit CountedInput(std::istream& in) : in_(in), block_(std::size_t{64} << 10) { refill(); }

  /// The line of the character at which the iterators are, from 1.
  [[nodiscard]] std::int64_t line() const { return line_; }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;

    explicit Iterator(CountedInput* input) : input_(input) {}
    char operator*() const { return input_->block_[input_->at_]; }
    Iterator& operator++() {
      input_->step();
      return *this;
    }
    void operator++(int) { input_->step(); }
    /// Iterators are equal if both are at the end.
    bool operator==(const Iterator& other) const { return is_at_end() == other.is_at_end(); }

   private:
    [[nodiscard]] bool is_at_end() const { return input_ == nullptr || input_->at_ == input_->size_; }
    CountedInput* input_;
  };

  Iterator begin() { return Iterator(this); }
  static Iterator end() { return Iterator(nullptr); }

 private:
  void step() {
    line_ += block_[at_] == '\n' ? 1 : 0;
    if (++at_ == size_) refill();
  }
  void refill() {
    in_.read(block_.data(), static_cast<std::streamsize>(block_.size()));
    size_ = static_cast<std::size_t>(in_.gcount());
    at_ = 0;
  }

  std::istream& in_;
  std::vector<char> block_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace lockstep::vision
