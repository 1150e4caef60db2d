// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/half.hpp"

#include <dnnl.hpp>

#include "ops/onednn/channel_layout.hpp"

namespace lockstep::ops::onednn {

namespace {

/// Returns whether oneDNN may use these instructions.
bool may_use(dnnl_cpu_isa_t isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

HalfKernels bfloat16_kernels() {
  if (may_use(dnnl_cpu_isa_avx512_core_amx)) return {.exist = true, .instructions = "AMX"};
  if (may_use(dnnl_cpu_isa_avx512_core_bf16)) return {.exist = true, .instructions = "AVX512-BF16"};
  return {.exist = may_use(dnnl_cpu_isa_avx512_core), .instructions = ""};
}

bool bfloat16_wants_channels_last() { return may_use(dnnl_cpu_isa_avx512_core_amx); }

Format stored_as(const Format& format, DType dtype) {
  const Tag tag = channel_tag(format).value_or(Tag::nchw);
  return to_format(describe(dims_of(format.shape), tag, dtype), format.shape);
}

}  // namespace lockstep::ops::onednn
