// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "apps/cli/command_line.hpp"

namespace lockstep::train {

/// Returns options of PaddleDetection, PaddleSeg, PaddleOCR, YOLOv5, torchrun, paddle.distributed.launch, Horovod and
/// mpirun, with the equivalent option of `train` or advice.
std::span<const cli::ForeignOption> foreign_options();

}  // namespace lockstep::train
