// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/common/command_line.hpp"
#include "lockstep/train.hpp"

namespace lockstep::train {

/// Returns the options of `train`, one row each.
/// @param name      the program's name, for its texts
/// @param registry  the models and data sets for --model and --dataset; outlives the result
Program describe_train(const std::string& name, const Registry& registry);

}  // namespace lockstep::train
