// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {
namespace {

/// Copies between a larger array, each block of which contains one piece, and an array of these pieces alone. It counts
/// in bytes, so that one copy serves both precisions.
class Pieces {
 public:
  /// @param whole, piece  shapes that differ along the axis only  @param begin  where the piece begins along the axis
  Pieces(const Format& whole, const Format& piece, Axis axis, std::int64_t begin)
      : blocks_(static_cast<std::size_t>(whole.shape.count() / run_of(whole.shape, axis))),
        block_(bytes_of(whole, run_of(whole.shape, axis))),
        piece_(bytes_of(piece, run_of(piece.shape, axis))),
        offset_(block_ / static_cast<std::size_t>(sample_extents(whole.shape)[index_of(axis)]) *
                static_cast<std::size_t>(begin)) {}

  void take(const void* whole, void* piece) const {
    for (std::size_t i = 0; i < blocks_; ++i)
      std::memcpy(static_cast<std::byte*>(piece) + i * piece_,
                  static_cast<const std::byte*>(whole) + i * block_ + offset_, piece_);
  }

  void put(const void* piece, void* whole) const {
    for (std::size_t i = 0; i < blocks_; ++i)
      std::memcpy(static_cast<std::byte*>(whole) + i * block_ + offset_,
                  static_cast<const std::byte*>(piece) + i * piece_, piece_);
  }

 private:
  static std::size_t bytes_of(const Format& format, std::int64_t count) {
    return static_cast<std::size_t>(count * size_of(format.dtype));
  }

  std::size_t blocks_;
  std::size_t block_;
  std::size_t piece_;
  std::size_t offset_;
};

class ConcatKernel final : public Kernel {
 public:
  ConcatKernel(Formats in, const Concat& concat)
      : Kernel({.inputs = {in.begin(), in.end()},
                .output = output_of(concat, in),
                .backward_reads_inputs = false,
                .backward_reads_output = false}) {
    std::int64_t begin = 0;
    for (const Format& format : in) {
      pieces_.emplace_back(traits().output, format, concat.axis, begin);
      begin += sample_extents(format.shape)[index_of(concat.axis)];
    }
  }

  void forward(const Arguments& call) override {
    for (std::size_t i = 0; i < pieces_.size(); ++i) pieces_[i].put(call.inputs[i], call.output);
  }

  void backward(const Arguments& call) override {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      if (call.input_gradients[i] != nullptr) pieces_[i].take(call.output_gradient, call.input_gradients[i]);
  }

 private:
  std::vector<Pieces> pieces_;
};

class SliceKernel final : public Kernel {
 public:
  SliceKernel(const Format& in, const Slice& slice)
      : Kernel(reading_gradients_only(in, output_of(slice, in))),
        piece_(in, traits().output, slice.axis, slice.begin) {}

  void forward(const Arguments& call) override { piece_.take(call.inputs[0], call.output); }

  void backward(const Arguments& call) override {
    void* gradient = call.input_gradients[0];
    if (gradient == nullptr || traits().inputs[0].bytes.value == 0) return;
    std::memset(gradient, 0, static_cast<std::size_t>(traits().inputs[0].bytes.value));
    piece_.put(call.output_gradient, gradient);
  }

 private:
  Pieces piece_;
};

class ReshapeKernel final : public Kernel {
 public:
  ReshapeKernel(const Format& in, const Reshape& reshape)
      : Kernel(reading_gradients_only(in, output_of(reshape, in))) {}

  void forward(const Arguments& call) override { copy(call.inputs[0], call.output); }
  void backward(const Arguments& call) override { copy(call.output_gradient, call.input_gradients[0]); }

 private:
  void copy(const void* from, void* to) const {
    if (to != nullptr && traits().output.bytes.value > 0)
      std::memcpy(to, from, static_cast<std::size_t>(traits().output.bytes.value));
  }
};

/// Writes a result row by row, from elements that are a fixed step apart.
template <typename T>
class Permutation {
 public:
  /// @param out  the result's shape  @param order  which of the input's axes become the result's
  Permutation(const Shape& out, const std::array<Axis, 3>& order) : out_(out) {
    Extents in{};
    for (std::size_t i = 0; i < order.size(); ++i) in[index_of(order[i])] = sample_extents(out)[i];
    const Extents steps{in[1] * in[2], in[2], 1};
    for (std::size_t i = 0; i < order.size(); ++i) steps_[i] = steps[index_of(order[i])];
  }

  void run(const T* in, T* out) const {
    const std::int64_t sample = run_of(out_, Axis::channels);
    for (std::int64_t n = 0; n < out_.batch; ++n) {
      for (std::int64_t c = 0; c < out_.channels; ++c) {
        for (std::int64_t h = 0; h < out_.height; ++h, out += out_.width)
          copy_row(in + n * sample + c * steps_[0] + h * steps_[1], out);
      }
    }
  }

 private:
  void copy_row(const T* in, T* out) const {
    if (steps_[2] == 1) {
      std::memcpy(out, in, static_cast<std::size_t>(out_.width) * sizeof(T));
    } else {
      for (std::int64_t w = 0; w < out_.width; ++w) out[w] = in[w * steps_[2]];
    }
  }

  Shape out_;
  Extents steps_{};  ///< for each axis: distance in the input between neighbors in the result
};

std::array<Axis, 3> inverse_of(const std::array<Axis, 3>& order) {
  std::array<Axis, 3> inverse{};
  for (std::size_t i = 0; i < order.size(); ++i) inverse[index_of(order[i])] = static_cast<Axis>(i);
  return inverse;
}

template <typename T>
class PermuteKernel final : public Kernel {
 public:
  PermuteKernel(const Format& in, const Permute& permute)
      : Kernel(reading_gradients_only(in, output_of(permute, in))),
        there_(traits().output.shape, permute.order),
        back_(in.shape, inverse_of(permute.order)) {}

  void forward(const Arguments& call) override {
    there_.run(static_cast<const T*>(call.inputs[0]), static_cast<T*>(call.output));
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    back_.run(static_cast<const T*>(call.output_gradient), static_cast<T*>(call.input_gradients[0]));
  }

 private:
  Permutation<T> there_;
  Permutation<T> back_;
};

}  // namespace

KernelPtr make(const Concat& concat, Formats in) { return std::make_unique<ConcatKernel>(in, concat); }

KernelPtr make(const Slice& slice, Formats in) { return std::make_unique<SliceKernel>(in[0], slice); }

KernelPtr make(const Reshape& reshape, Formats in) { return std::make_unique<ReshapeKernel>(in[0], reshape); }

KernelPtr make(const Permute& permute, Formats in) { return make_for<PermuteKernel>(in, permute); }

}  // namespace lockstep::ops::reference
