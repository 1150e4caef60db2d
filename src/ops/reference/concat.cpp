// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstring>
#include <vector>

#include "ops/axes.hpp"
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
  ConcatKernel(Formats in, const Format& out, Axis axis)
      : Kernel({.inputs = {in.begin(), in.end()},
                .output = out,
                .backward_reads_inputs = false,
                .backward_reads_output = false}) {
    std::int64_t begin = 0;
    for (const Format& format : in) {
      pieces_.emplace_back(out, format, axis, begin);
      begin += sample_extents(format.shape)[index_of(axis)];
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

}  // namespace

KernelPtr make(const Concat& concat, Formats in) {
  std::vector<Shape> shapes;
  for (const Format& format : in) shapes.push_back(format.shape);
  return std::make_unique<ConcatKernel>(in, Format::plain(concat.signature(shapes).output, in[0].dtype), concat.axis);
}

KernelPtr make(const Slice& slice, Formats in) { return std::make_unique<SliceKernel>(in[0], slice); }

}  // namespace lockstep::ops::reference
