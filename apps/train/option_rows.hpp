// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/common/command_line.hpp"
#include "lockstep/train.hpp"

namespace lockstep::train {

/// The options of `train`, a row each.
/// @param name      the program's, for its texts
/// @param registry  what --model and --dataset choose from; outlives the result
Program describe_train(const std::string& name, const Registry& registry);

}  // namespace lockstep::train
