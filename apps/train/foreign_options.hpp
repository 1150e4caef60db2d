// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "apps/common/command_line.hpp"

namespace lockstep::train {

/// What users of PaddleDetection, PaddleSeg, PaddleOCR, YOLOv5, torchrun, paddle.distributed.launch, Horovod and mpirun
/// type, with the option of `train` that means the same, or what to do instead.
std::span<const ForeignOption> foreign_options();

}  // namespace lockstep::train
