// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/half.hpp"

#include <dnnl.hpp>

#include "ops/onednn/channel_layout.hpp"

namespace lockstep::ops::onednn {

HalfKernels bfloat16_kernels() {
  const auto usable = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto has = [usable](dnnl_cpu_isa_t isa) {
    const auto bits = static_cast<unsigned>(isa);
    return (usable & bits) == bits;
  };
  if (has(dnnl_cpu_isa_avx512_core_amx)) return {.exist = true, .instructions = "AMX"};
  if (has(dnnl_cpu_isa_avx512_core_bf16)) return {.exist = true, .instructions = "AVX512-BF16"};
  return {.exist = has(dnnl_cpu_isa_avx512_core), .instructions = ""};
}

Format stored_as(const Format& format, DType dtype) {
  const Tag tag = channel_tag(format).value_or(Tag::nchw);
  return to_format(describe(dims_of(format.shape), tag, dtype), format.shape);
}

}  // namespace lockstep::ops::onednn
