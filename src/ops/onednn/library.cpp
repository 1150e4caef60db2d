// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/library.hpp"

#include <dnnl.hpp>

namespace lockstep::ops::onednn {

std::string library_version() {
  const dnnl_version_t& version = *dnnl_version();
  std::string text = "oneDNN";
  for (const int number : {version.major, version.minor, version.patch}) text += ' ' + std::to_string(number);
  return text;
}

std::string library_instruction_set() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  switch (isa) {
    case dnnl::cpu_isa::sse41: return "SSE4.1";
    case dnnl::cpu_isa::avx: return "AVX";
    case dnnl::cpu_isa::avx2: return "AVX2";
    case dnnl::cpu_isa::avx512_core: return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni: return "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_bf16: return "AVX-512 with BF16";
    case dnnl::cpu_isa::avx512_core_amx: return "AVX-512 with AMX";
    default: return "number " + std::to_string(static_cast<int>(isa)) + " of dnnl::cpu_isa";
  }
}

}  // namespace lockstep::ops::onednn
