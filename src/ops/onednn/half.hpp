// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::onednn {

/// Returns oneDNN's bfloat16 support on this processor, within the instructions that the environment allows it. oneDNN
/// asks Linux for the tiles of AMX itself (`amx::init` of 2.6.3 and 3.7.1, by arch_prctl) and does not use them if that
/// fails.
HalfKernels bfloat16_kernels();

/// Returns whether the kernels are those for AMX, which support only channels last. Without AMX, blocks of channels are
/// faster: on an AMD Zen 5 (AVX512-BF16, oneDNN 2.6.3) LeNet trains 1.05 and ResNet-18 1.07 times as fast with them.
bool bfloat16_wants_channels_last();

/// Returns a format of the same layout in another dtype, or a plain one if `channel_tag` does not know the layout.
Format stored_as(const Format& format, DType dtype);

}  // namespace lockstep::ops::onednn
