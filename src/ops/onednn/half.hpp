// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::onednn {

/// What oneDNN makes of bfloat16 on this processor, as far as it may use it: the environment can bar it from
/// instructions. It asks Linux by itself for the tiles of AMX (`amx::init` of 2.6.3 and 3.7.1, by arch_prctl), and does
/// not use them where that is refused.
HalfKernels bfloat16_kernels();

/// Whether they are those for AMX, which take channels last and nothing else. Without it blocks of channels are faster:
/// on an AMD Zen 5 (AVX512-BF16, oneDNN 2.6.3) LeNet trains 1.05 and ResNet-18 1.07 times as fast with them.
bool bfloat16_wants_channels_last();

/// A format of the same layout in another dtype; plain, where the layout is none of `channel_tag`'s.
Format stored_as(const Format& format, DType dtype);

}  // namespace lockstep::ops::onednn
