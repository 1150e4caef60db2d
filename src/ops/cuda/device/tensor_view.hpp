// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "lockstep/ops/format.hpp"
#include "lockstep/ops/step.hpp"

namespace lockstep::ops::cuda {

/// The format of activations on a GPU: NHWC, where each position has all channels next to each other. In 16-bit types
/// the channels are padded to a multiple of 8. Padding is finite, and kernels that write channel by channel write zeros
/// there.
Format nhwc(const Shape& shape, DType dtype);

/// The number of channels in memory: a multiple of 8 in 16-bit types, as the instructions of tensor cores and vector
/// loads of 16 bytes need them.
inline std::int64_t padded_channels(std::int64_t channels, DType dtype) {
  return size_of(dtype) == 2 ? (channels + 7) / 8 * 8 : channels;
}

/// A quotient and its remainder.
struct Division {
  std::int64_t quotient;
  std::int64_t remainder;
};
/// A quotient and its remainder in 32 bits.
struct ShortDivision {
  std::uint32_t quotient;
  std::uint32_t remainder;
};
/// GPUs divide numbers of 32 bits several times faster than those of 64, and by a `Divisor` faster still.
/// @pre dividend ≥ 0 and divisor > 0
LOCKSTEP_HOST_DEVICE inline Division divide(std::int64_t dividend, std::int64_t divisor) {
  if (((dividend | divisor) >> 32) == 0) {
    const auto a = static_cast<std::uint32_t>(dividend);
    const auto b = static_cast<std::uint32_t>(divisor);
    return {a / b, a % b};
  }
  return {dividend / divisor, dividend % divisor};
}

/// A number that kernels divide by: dividends below 2³¹ are divided by a multiplication and a shift.
/// @source Granlund & Montgomery: Division by invariant integers using multiplication, 1994, figure 4.1
class Divisor {
 public:
  Divisor() = default;
  /// @pre value ≥ 0; by 0 nothing is divided
  explicit Divisor(std::int64_t value) : value_(value) {
    if (value < 1 || value > largest) return;
    shift_ = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value - 1)));
    const std::uint64_t missing = (std::uint64_t{1} << shift_) - static_cast<std::uint64_t>(value);
    factor_ = static_cast<std::uint32_t>((missing << 32) / static_cast<std::uint64_t>(value) + 1);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): it is a number
  LOCKSTEP_HOST_DEVICE operator std::int64_t() const { return value_; }

  friend LOCKSTEP_HOST_DEVICE Division divide(std::int64_t dividend, const Divisor& by) {
    if (dividend > largest || by.value_ > largest) return {dividend / by.value_, dividend % by.value_};
    const ShortDivision division = divide_short(static_cast<std::uint32_t>(dividend), by);
    return {division.quotient, division.remainder};
  }
  /// @pre both numbers are below 2³¹
  friend LOCKSTEP_HOST_DEVICE ShortDivision divide_short(std::uint32_t dividend, const Divisor& by) {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{dividend} * by.factor_) >> 32);
    const std::uint32_t quotient = (high + dividend) >> by.shift_;
    return {quotient, dividend - quotient * static_cast<std::uint32_t>(by.value_)};
  }

  static constexpr std::int64_t largest = 0x7fffffff;

 private:
  std::int64_t value_ = 0;
  std::uint32_t factor_ = 0;
  int shift_ = 0;
};

/// A position in a tensor.
struct Position {
  std::int64_t sample;
  std::int64_t channel;
  std::int64_t row;
  std::int64_t column;
};

/// The extents and strides of a tensor, NHWC or plain (NCHW). Strides are in elements.
struct TensorView {
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  Divisor height;
  Divisor width;
  std::int64_t sample_stride = 0;
  std::int64_t channel_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  Divisor padded;  ///< number of channels in memory

  /// The number of elements in memory, with padding.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t elements() const { return samples * sample_stride; }
  /// The number of positions, each of which has all channels.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t positions() const { return samples * height * width; }
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t offset(const Position& at) const {
    return at.sample * sample_stride + at.channel * channel_stride + at.row * row_stride + at.column * column_stride;
  }
  /// The position of element `i` in memory of an NHWC tensor. In the padding its channel is not below `channels`.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Position nhwc_position(std::int64_t i) const {
    const Division pixel = divide(i, padded);
    Position at = first_channel(pixel.quotient);
    at.channel = pixel.remainder;
    return at;
  }
  /// The first channel of pixel `i`, of which there are `positions`.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Position first_channel(std::int64_t i) const {
    const Division row = divide(i, width);
    const Division sample = divide(row.quotient, height);
    return {sample.quotient, 0, sample.remainder, row.remainder};
  }
  /// The place of an element of a sample in plain order.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE std::int64_t plain_index(const Position& at) const {
    return (at.channel * height + at.row) * width + at.column;
  }
  /// The position of a sample's element in plain order.
  [[nodiscard]] LOCKSTEP_HOST_DEVICE Position plain_position(std::int64_t sample, std::int64_t i) const {
    const Division row = divide(i, width);
    const Division channel = divide(row.quotient, height);
    return {sample, channel.quotient, channel.remainder, row.remainder};
  }
};
TensorView view_of(const Format& format);

}  // namespace lockstep::ops::cuda
