// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "vision/source/source.hpp"

namespace lockstep::vision {

/// A picture whose bytes depend on their position: none is 0, and neighbors differ.
inline Image pattern(int width, int height, int channels = 3, int seed = 0) {
  Image picture;
  picture.resize(width, height, channels);
  std::uint8_t* byte = picture.pixels.data();
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int channel = 0; channel < channels; ++channel)
        *byte++ = static_cast<std::uint8_t>(1 + (7 * x + 11 * y + 85 * channel + 13 * seed) % 255);
  return picture;
}

/// Pictures made by pattern(). Sample i has 40 + i mod 7 columns and 30 + i mod 5 rows unless all have one size, the
/// label i mod 3, and a box. It counts how often it decodes, and some of its samples are bad.
class PatternSource final : public Source {
 public:
  explicit PatternSource(std::int64_t samples, std::set<std::int64_t> bad = {})
      : samples_(samples), bad_(std::move(bad)) {
    for (std::int64_t i = 0; i < samples; ++i) {
      Annotation annotation{.label = static_cast<std::int32_t>(i % 3)};
      annotation.boxes.push_back({.label = 1, .left = 4, .top = 6, .right = 24, .bottom = 20});
      annotations_.push_back(annotation);
    }
  }

  [[nodiscard]] std::string format() const override { return "pattern"; }
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override {
    return annotations_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return "picture " + std::to_string(sample); }
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t /*sample*/) const override { return sizeof(std::int64_t); }
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override {
    if (sample == unreadable) throw Error(ErrorCode::io, place(sample) + " cannot be read");
    bytes.resize(sizeof sample);
    std::memcpy(bytes.data(), &sample, sizeof sample);
  }
  void decode(std::int64_t sample, std::span<const std::byte> /*bytes*/, const DecodeOptions& options,
              Image& picture) const override {
    ++decodes;
    if (bad_.contains(sample)) throw Error(ErrorCode::corrupt, place(sample) + " is damaged");
    picture = picture_of(sample, options.channels);
  }

  /// The picture of a sample before any transform.
  [[nodiscard]] Image picture_of(std::int64_t sample, int channels = 3) const {
    const auto number = static_cast<int>(sample);
    if (side > 0) return pattern(side, side, channels, number);
    return pattern(40 + number % 7, 30 + number % 5, channels, number);
  }

  int side = 0;                  ///< of all pictures; 0: they differ
  std::int64_t unreadable = -1;  ///< a sample that cannot be read
  mutable std::atomic<int> decodes{0};

 private:
  std::int64_t samples_;
  std::set<std::int64_t> bad_;
  std::vector<std::string> names_ = {"red", "green", "blue"};
  std::vector<Annotation> annotations_;
};

}  // namespace lockstep::vision
