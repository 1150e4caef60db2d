// SPDX-License-Identifier: Apache-2.0
// An app for run_app_test: behaves as its argument says, mostly badly.

#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "apps/common/run_app.hpp"
#include "apps/common/terminal.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/bootstrap.hpp"

namespace {

using lockstep::Error;
using lockstep::ErrorCode;

int behave(lockstep::World& world, const std::string& manner) {
  const bool second = world.rank().value == 1;
  if (manner == "usage") throw lockstep::UsageError("no such option");
  if (manner == "agreed") {
    agree(world.group(), second ? std::optional(Error(ErrorCode::io, "disk full")) : std::nullopt);
  }
  if (manner == "alone" && second) throw Error(ErrorCode::io, "disk full");
  if ((manner == "late" || manner == "never") && second) {
    std::this_thread::sleep_for(manner == "late" ? std::chrono::milliseconds(500) : std::chrono::minutes(1));
    throw Error(ErrorCode::io, "disk full");
  }
  if (manner == "foreign" && second) throw std::runtime_error("not one of ours");
  if (manner == "alone" || manner == "foreign") barrier(world.group());  // for a peer that never comes
  if (manner == "terminal" && !second) std::puts(lockstep::shows_on_terminal() ? "terminal" : "no terminal");
  return manner == "seven" ? 7 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string manner = argc > 1 ? argv[1] : "";
  if (manner == "forgetful") {
    const lockstep::World world(
        {.notice = [](std::string_view text) { std::fputs(std::string(text).c_str(), stderr); }});
    return 0;
  }
  const lockstep::WorldOptions options{.deadline = std::chrono::seconds(manner == "never" ? 2 : 60)};
  return lockstep::run_app("probe", options, [&](lockstep::World& world) { return behave(world, manner); });
}
