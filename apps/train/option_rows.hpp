// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/common/command_line.hpp"
#include "apps/train/options.hpp"

/// The options of `train`, one row each: everything that an option is, and where its value goes.
namespace lockstep::train {

OptionGroup data_options(Options& o, const Registry& registry);
OptionGroup training_options(Options& o);
OptionGroup learning_rate_options(Options& o);
OptionGroup optimizer_options(Options& o);
OptionGroup computation_options(Options& o);
OptionGroup communication_options(Options& o);
OptionGroup checkpoint_options(Options& o);
OptionGroup report_options(Options& o);

/// The name that --lr-schedule has for it.
std::string schedule_name(nn::Decay decay);

/// Returns what is wrong with an option that divides a batch into more parts than it has samples; empty if nothing is,
/// or if the batch is not known yet.
std::string too_many_parts(const std::string& option, int parts, const Options& o);

/// Returns all options.
/// @param name      the program's name, for its texts
/// @param registry  the models and data sets for --model and --dataset; outlives the result
/// @param options   receives the values (`OptionValues::store`); outlives the result
Program describe_train(const std::string& name, const Registry& registry, Options& options);

}  // namespace lockstep::train
