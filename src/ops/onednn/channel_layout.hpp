// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/batch_norm.hpp"
#include "ops/onednn/format.hpp"

namespace lockstep::ops::onednn {

/// Returns the layout of the channels if lockstep's own loops support it: NCHW, NHWC, or blocks of 8 or 16.
std::optional<Tag> channel_tag(const Format& format);
/// Returns that layout as extents. @throws Error{unsupported} if it is not supported
kernels::ChannelLayout channel_layout(const Format& format);

}  // namespace lockstep::ops::onednn
