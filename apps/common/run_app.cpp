// SPDX-License-Identifier: Apache-2.0
#include "apps/common/run_app.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "apps/common/exit_codes.hpp"
#include "lockstep/base/error.hpp"
#include "platform/machine/launch.hpp"
#include "platform/mpi/bootstrap.hpp"

namespace lockstep {
namespace {

/// What the rank that reports the cause of an error, and its launcher, have for ending this process. One that they do
/// not end reports what it knows.
constexpr std::chrono::seconds time_to_be_ended{3};

/// The time in which the launcher forwards what was printed before. It forwards each stream of each rank by itself.
constexpr std::chrono::milliseconds time_to_forward{100};

/// One write, so that lines of several ranks do not mix.
void report(std::string_view app, const std::string& what) {
  const std::string line = std::string(app) + ": " + what + '\n';
  std::fflush(stdout);
  std::fputs(line.c_str(), stderr);
}

/// Reports why the job ends, below everything that it has printed. What the launcher itself says of the end comes after
/// it, unless mpi-scripts/launch.py holds this line back.
void report_cause(std::string_view app, const std::string& what) {
  std::fflush(nullptr);
  std::this_thread::sleep_for(time_to_forward);
  report(app, what);
}

/// Closes the world after an error that every rank has.
int end_in_order(std::string_view app, World& world, const std::string& what, ExitCode code) {
  if (world.rank() == Rank{0}) report_cause(app, what);
  try {
    world.close();
  } catch (const std::exception& error) {
    report(app, error.what());
  }
  return code;
}

/// Ends the job after an error of this rank's own.
int end_job(std::string_view app, World& world, const std::string& what) {
  if (world.size() == 1) return end_in_order(app, world, what, exit_error);
  report_cause(app, what);
  world.abort(exit_error);
}

int run_body(std::string_view app, World& world, const std::function<int(World&)>& body) {
  try {
    const int code = body(world);
    world.close();
    return code;
  } catch (const UsageError& error) {
    return end_in_order(app, world, error.what(), exit_usage);
  } catch (const Error& error) {
    if (error.is_on_every_rank()) return end_in_order(app, world, error.what(), exit_error);
    if (error.is_consequence()) std::this_thread::sleep_for(time_to_be_ended);
    return end_job(app, world, error.reported_by(world.rank().value, world.host()).what());
  } catch (const std::exception& error) {
    return end_job(app, world,
                   "rank " + std::to_string(world.rank().value) + " on " + world.host() + ": " + error.what());
  }
}

}  // namespace

std::string_view program_name(int argc, const char* const* argv) {
  const std::string_view path = argc > 0 && argv[0] != nullptr ? argv[0] : "";
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  return name.empty() ? "lockstep" : name;
}

int run_app(std::string_view app, const WorldOptions& options, const std::function<int(World&)>& body) {
  std::optional<World> world;
  try {
    WorldOptions with_notice = options;
    if (!with_notice.notice) with_notice.notice = [app](std::string_view text) { report(app, std::string(text)); };
    world.emplace(with_notice);
  } catch (const Error& error) {
    report(app, error.what());
    return exit_error;
  }
  return run_body(app, *world, body);
}

void print_once(const std::string& text) {
  if (first_process(read_environment())) std::fputs(text.c_str(), stdout);
}

}  // namespace lockstep
