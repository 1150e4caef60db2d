// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/format.hpp"

#include <memory>

namespace lockstep::ops::onednn {

Desc describe(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }

Dims dims_of(const Shape& shape) { return {shape.batch, shape.channels, shape.height, shape.width}; }

Desc to_desc(const Format& format) {
  if (format.native != nullptr) return *static_cast<const Desc*>(format.native.get());
  return describe(dims_of(format.shape), Tag::nchw);
}

namespace {

std::string_view layout_of(const Desc& desc, const Dims& dims) {
  if (desc == describe(dims, Tag::nhwc)) return "nhwc";
  if (desc == describe(dims, Tag::nChw8c)) return "nChw8c";
  if (desc == describe(dims, Tag::nChw16c)) return "nChw16c";
  return "blocked";
}

}  // namespace

Format to_format(const Desc& desc, const Shape& shape) {
  Format format = Format::plain(shape, DType::float32);
  if (desc == describe(dims_of(shape), Tag::nchw)) return format;
  format.bytes = {static_cast<std::int64_t>(desc.get_size())};
  format.native = std::make_shared<const Desc>(desc);
  format.layout = layout_of(desc, dims_of(shape));
  return format;
}

}  // namespace lockstep::ops::onednn
