// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>

#include "apps/common/run_app.hpp"
#include "apps/common/same_options.hpp"
#include "apps/train/options.hpp"
#include "apps/train/session.hpp"
#include "lockstep/train.hpp"

namespace lockstep {

int train_main(int argc, char** argv, const Registry& registry) {
  train::CommandLine command_line;
  std::string mistake;
  try {
    command_line = train::parse_options(argc, argv, registry);
  } catch (const UsageError& error) {
    mistake = error.what();
  }
  if (!command_line.to_print.empty()) return print_once(program_name(argc, argv), command_line.to_print);
  const WorldOptions world_options{.deadline = std::chrono::duration<double>(command_line.options.timeout_seconds)};
  return run_app(program_name(argc, argv), world_options, [&](World& world) {
    require_same_command_line(world, mistake, command_line.options.settings);
    return train::run_session(world, command_line.options, registry);
  });
}

}  // namespace lockstep
