// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/format.hpp"

#include <memory>

#include "ops/onednn/descriptors.hpp"

namespace lockstep::ops::onednn {

Desc describe(const Dims& dims, Tag tag, DType dtype) {
  using Type = dnnl::memory::data_type;
  return {dims, dtype == DType::bfloat16 ? Type::bf16 : Type::f32, tag};
}

Dims dims_of(const Shape& shape) { return {shape.batch, shape.channels, shape.height, shape.width}; }

Desc to_desc(const Format& format) {
  if (format.native != nullptr) return *static_cast<const Desc*>(format.native.get());
  return describe(dims_of(format.shape), Tag::nchw, format.dtype);
}

namespace {

std::string_view layout_of(const Desc& desc, const Dims& dims) {
  const DType dtype = dtype_of(desc);
  if (desc == describe(dims, Tag::nhwc, dtype)) return "nhwc";
  if (desc == describe(dims, Tag::nChw8c, dtype)) return "nChw8c";
  if (desc == describe(dims, Tag::nChw16c, dtype)) return "nChw16c";
  return "blocked";
}

}  // namespace

Format to_format(const Desc& desc, const Shape& shape) {
  Format format = Format::plain(shape, dtype_of(desc));
  if (desc == describe(dims_of(shape), Tag::nchw, format.dtype)) return format;
  format.bytes = {static_cast<std::int64_t>(desc.get_size())};
  format.native = std::make_shared<const Desc>(desc);
  format.layout = layout_of(desc, dims_of(shape));
  return format;
}

}  // namespace lockstep::ops::onednn
