// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "apps/common/run_app.hpp"
#include "apps/train/options.hpp"
#include "apps/train/session.hpp"
#include "lockstep/train.hpp"
#include "platform/mpi/require_equal.hpp"

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
  return run_app(program_name(argc, argv), {}, [&](World& world) {
    // Of a mistake too, or the others would wait for a rank that does not start.
    require_equal(world.group(), {{"a mistake in its options:", mistake.empty() ? "none" : mistake}});
    if (!mistake.empty()) throw UsageError(mistake);
    require_equal(world.group(), command_line.options.settings);
    return train::run_session(world, command_line.options, registry);
  });
}

}  // namespace lockstep
