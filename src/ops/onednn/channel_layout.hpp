// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/batch_norm.hpp"
#include "ops/onednn/format.hpp"

namespace lockstep::ops::onednn {

/// How channels lie, if that is known to loops of our own: NCHW, NHWC or in blocks of 8 or 16.
std::optional<Tag> channel_tag(const Format& format);
/// The same as extents. @throws Error{unsupported} if it is not known
kernels::ChannelLayout channel_layout(const Format& format);

}  // namespace lockstep::ops::onednn
