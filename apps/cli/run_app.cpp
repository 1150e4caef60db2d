// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/run_app.hpp"

#include <cstdio>
#include <string>

#include "platform/machine/launch.hpp"
#include "platform/mpi/print.hpp"

namespace lockstep::cli {

std::string_view program_name(int argc, const char* const* argv) {
  const std::string_view path = argc > 0 && argv[0] != nullptr ? argv[0] : "";
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  return name.empty() ? "lockstep" : name;
}

int run_app(std::string_view app, const WorldOptions& options, const std::function<int(World&)>& body) {
  WorldOptions named = options;
  named.program = app;
  return run_in_world(named, body);
}

int print_once(std::string_view app, const std::string& text) {
  if (first_process(read_environment())) std::fwrite(text.data(), 1, text.size(), stdout);
  const auto failure = flush_output();
  if (!failure) return exit_success;
  print_error(app, "cannot write all of standard output: " + *failure);
  return exit_error;
}

}  // namespace lockstep::cli
