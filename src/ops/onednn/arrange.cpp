// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <vector>

#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {
namespace {

/// A layout of channels, and how many of them it keeps together; NHWC keeps all.
struct Blocks {
  Tag tag;
  std::int64_t channels;

  [[nodiscard]] bool divide(std::int64_t count) const { return tag == Tag::nhwc || count % channels == 0; }
};

/// Returns the layout of the first input that is not NCHW, if it divides the channels of every input without padding.
std::optional<Blocks> blocks_of(Formats in) {
  for (const Format& format : in) {
    const std::optional<Tag> tag = channel_tag(format);
    if (!tag || tag == Tag::nchw) continue;
    const Blocks blocks{*tag, channel_layout(format).lanes};
    const bool fit =
        std::all_of(in.begin(), in.end(), [&](const Format& f) { return blocks.divide(f.shape.channels); });
    return fit ? std::optional(blocks) : std::nullopt;
  }
  return std::nullopt;
}

/// Returns the same format, so that nothing is reordered, if it has these blocks.
Format in_blocks(const Format& format, const Blocks& blocks) {
  if (channel_tag(format) == blocks.tag) return format;
  return to_format(describe(dims_of(format.shape), blocks.tag, format.dtype), format.shape);
}

/// Returns the plain format of the same bytes, in which each block is a channel.
Format with_blocks_as_channels(const Shape& shape, const Blocks& blocks, DType dtype) {
  const std::int64_t positions = shape.height * shape.width;
  if (blocks.tag == Tag::nhwc) return Format::plain({shape.batch * positions, shape.channels, 1, 1}, dtype);
  return Format::plain({shape.batch, shape.channels / blocks.channels, positions, blocks.channels}, dtype);
}

/// Concatenates channels block by block, so that neither the inputs nor the result is reordered.
class BlocksConcatKernel final : public Kernel {
 public:
  BlocksConcatKernel(Formats in, const Concat& concat, const Blocks& blocks) {
    const DType dtype = in[0].dtype;
    Traits traits{.output = in_blocks(reference::output_of(concat, in), blocks),
                  .backward_reads_inputs = false,
                  .backward_reads_output = false};
    std::vector<Format> plain;
    for (const Format& format : in) {
      traits.inputs.push_back(in_blocks(format, blocks));
      plain.push_back(with_blocks_as_channels(format.shape, blocks, dtype));
    }
    set(std::move(traits));
    copy_ = reference::make(concat, plain);
  }

 private:
  void forward(const Arguments& call) override { copy_->run(Pass::forward, call); }
  void backward(const Arguments& call) override { copy_->run(Pass::backward, call); }

  KernelPtr copy_;
};

}  // namespace

KernelPtr make(const Concat& concat, const ContextPtr& /*context*/, Formats in) {
  const std::optional<Blocks> blocks = concat.axis == Axis::channels ? blocks_of(in) : std::nullopt;
  if (blocks) return std::make_unique<BlocksConcatKernel>(in, concat, *blocks);
  std::vector<Format> plain;
  for (const Format& format : in) plain.push_back(Format::plain(format.shape, format.dtype));
  return reference::make(concat, plain);
}

}  // namespace lockstep::ops::onednn
