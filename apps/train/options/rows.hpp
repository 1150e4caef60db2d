// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/cli/command_line.hpp"
#include "apps/train/options/options.hpp"

/// The options of `train`, one row each: everything that an option is, and where its value goes.
namespace lockstep::train {

cli::OptionGroup data_options(Options& o, const Registry& registry);
cli::OptionGroup picture_options(Options& o);
cli::OptionGroup training_options(Options& o);
cli::OptionGroup learning_rate_options(Options& o);
cli::OptionGroup optimizer_options(Options& o);
cli::OptionGroup computation_options(Options& o, const Registry& registry);
cli::OptionGroup communication_options(Options& o);
cli::OptionGroup checkpoint_options(Options& o);
cli::OptionGroup prediction_options(Options& o);
cli::OptionGroup report_options(Options& o);

/// Returns the name of a schedule in --lr-schedule.
std::string schedule_name(nn::Decay decay);

/// Refuses an option that divides a batch into more parts than it has samples. @param batch  0: it is not known yet
cli::Rule at_most_a_sample_each(const std::string& option, int parts, Count batch);

/// Returns why a run with these options computes on the CPU; empty if it can use GPUs.
std::string why_not_on_gpus(const cli::OptionValues& given, const Options& options);

/// Returns all options.
/// @param name      the program's name, for its texts
/// @param registry  what options choose by name; outlives the result
/// @param options   receives the values (`OptionValues::store`); outlives the result
cli::Program describe_train(const std::string& name, const Registry& registry, Options& options);

}  // namespace lockstep::train
