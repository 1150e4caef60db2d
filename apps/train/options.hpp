// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/train/precision.hpp"
#include "lockstep/backends/method.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/train.hpp"
#include "lockstep/trainer/options.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::train {

/// The command line and the configuration file, checked: everything that can be told without data or other ranks.
struct Options {
  std::string program;  ///< its name, for its messages
  std::string dataset;
  std::string data_dir;
  std::string model;
  backends::Method method;  ///< --algorithm
  std::string compress;     ///< of backends::compression_names()
  std::string tuning;       ///< the selection table that "auto" goes by; empty: the cost model
  bool explain = false;
  bool explain_step = false;
  std::string device;
  std::string ops;
  Precision precision;
  bool exact = false;
  std::string kernels;           ///< the file of measured algorithms; empty: the back end's rule
  double timeout_seconds = 300;  ///< also of the start, where the command line is wrong
  bool progress_thread = false;
  std::string wait = "auto";
  bool check = false;  ///< ranks compare what they call, where that is not seen anyway
  double warmup_epochs = 0;
  bool warmup_given = false;  ///< by the user, not by the model's defaults
  int threads = 0;            ///< 0: as many as this rank has processors to itself
  std::string metrics;
  std::string trace;
  trainer::TrainerOptions trainer;
  std::vector<Setting> settings;  ///< those that all ranks must have alike, as the user knows them
};

struct CommandLine {
  Options options;
  std::string to_print;  ///< not empty where --help or --version asks for this text instead of a run
};

/// @throws UsageError that names the option, its value and what is possible
CommandLine parse_options(int argc, char** argv, const Registry& registry = {});

}  // namespace lockstep::train
