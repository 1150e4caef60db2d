// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>

#include "lockstep/ops/format.hpp"
#include "lockstep/ops/operators.hpp"

namespace lockstep::ops::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

/// A tensor in the layout that `tag` says; `Tag::any` leaves it to the primitive.
/// @param dtype  float32 or bfloat16
Desc describe(const Dims& dims, Tag tag, DType dtype = DType::float32);
Dims dims_of(const Shape& shape);
inline Dims dims_of(const Pair& pair) { return {pair.height, pair.width}; }

/// oneDNN's descriptor of an activation. @pre `format.native` is empty or made by `to_format`
Desc to_desc(const Format& format);
/// The way back; plain if `desc` is. Of the same dtype.
Format to_format(const Desc& desc, const Shape& shape);

}  // namespace lockstep::ops::onednn
