// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/channel_layout.hpp"

#include "lockstep/base/error.hpp"

namespace lockstep::ops::onednn {

std::optional<Tag> channel_tag(const Format& format) {
  for (const Tag tag : {Tag::nchw, Tag::nhwc, Tag::nChw8c, Tag::nChw16c})
    if (to_desc(format) == describe(dims_of(format.shape), tag, format.dtype)) return tag;
  return std::nullopt;
}

kernels::ChannelLayout channel_layout(const Format& format) {
  const Shape& shape = format.shape;
  const std::int64_t positions = shape.height * shape.width;
  const std::optional<Tag> tag = channel_tag(format);
  if (tag == Tag::nchw) return {shape.batch, shape.channels, positions, 1};
  if (tag == Tag::nhwc) return {shape.batch, 1, positions, shape.channels};
  if (tag == Tag::nChw8c) return {shape.batch, (shape.channels + 7) / 8, positions, 8};
  if (tag == Tag::nChw16c) return {shape.batch, (shape.channels + 15) / 16, positions, 16};
  throw Error(ErrorCode::unsupported,
              "channels are known in NCHW, NHWC and in blocks of 8 or 16, not in " + std::string(format.layout));
}

}  // namespace lockstep::ops::onednn
