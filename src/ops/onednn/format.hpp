// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>

#include "lockstep/ops/format.hpp"
#include "lockstep/ops/operators.hpp"

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

}  // namespace lockstep::ops::onednn
