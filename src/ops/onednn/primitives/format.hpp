// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>
#include <optional>

#include "kernels/batch_norm.hpp"
#include "lockstep/ops/format.hpp"
#include "lockstep/ops/operators.hpp"
#include "lockstep/ops/ops.hpp"
namespace lockstep::ops::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

/// Describes a tensor in the layout `tag`; `Tag::any` leaves the layout to the primitive.
/// @param dtype  float32 or bfloat16
Desc describe(const Dims& dims, Tag tag, DType dtype = DType::float32);
Dims dims_of(const Shape& shape);
inline Dims dims_of(const Pair& pair) { return {pair.height, pair.width}; }

/// Returns oneDNN's descriptor of an activation. @pre `format.native` is empty or made by `to_format`
Desc to_desc(const Format& format);
/// Converts a descriptor to a format of the same dtype, which is plain if `desc` is.
Format to_format(const Desc& desc, const Shape& shape);

/// Returns the layout of the channels if lockstep's own loops support it: NCHW, NHWC, or blocks of 8 or 16.
std::optional<Tag> channel_tag(const Format& format);
/// Returns that layout as extents. @throws Error{unsupported} if it is not supported
kernels::ChannelLayout channel_layout(const Format& format);

/// Returns oneDNN's bfloat16 support on this processor, within the instructions that the environment allows it. oneDNN
/// asks Linux for the tiles of AMX itself (`amx::init` of 2.6.3 and 3.7.1, by arch_prctl) and does not use them if that
/// fails.
///
/// AVX512-BF16 without AMX is fast on AMD's processors only. On an AMD Zen 5, ResNet-20 and ResNet-18 train 1.3 and 1.2
/// times as fast with it as in float32; on an Intel Xeon they take 1.7 and 1.6 times as long as in float32 with
/// rounding.
HalfKernels bfloat16_kernels();

/// Returns whether the kernels are those for AMX, which support only channels last. Without AMX, blocks of channels are
/// faster: on an AMD Zen 5 (AVX512-BF16, oneDNN 2.6.3) LeNet trains 1.05 and ResNet-18 1.07 times as fast with them.
bool bfloat16_wants_channels_last();

/// Returns a format of the same layout in another dtype, or a plain one if `channel_tag` does not know the layout.
Format stored_as(const Format& format, DType dtype);

}  // namespace lockstep::ops::onednn
