// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/primitives/format.hpp"

#include "kernels/instruction_set.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
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

/// Returns whether oneDNN may use these instructions.
bool may_use(dnnl_cpu_isa_t isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & bits) == bits;
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

HalfKernels bfloat16_kernels() {
  if (may_use(dnnl_cpu_isa_avx512_core_amx)) return {.exist = true, .instructions = "AMX", .are_fast = true};
  if (may_use(dnnl_cpu_isa_avx512_core_bf16))
    return {.exist = true, .instructions = "AVX512-BF16", .are_fast = !kernels::is_intel_processor()};
  return {.exist = may_use(dnnl_cpu_isa_avx512_core), .instructions = ""};
}

bool bfloat16_wants_channels_last() { return may_use(dnnl_cpu_isa_avx512_core_amx); }

Format stored_as(const Format& format, DType dtype) {
  const Tag tag = channel_tag(format).value_or(Tag::nchw);
  return to_format(describe(dims_of(format.shape), tag, dtype), format.shape);
}

}  // namespace lockstep::ops::onednn
