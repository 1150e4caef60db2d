// SPDX-License-Identifier: Apache-2.0
// The entry into lockstep: runs a program's function in a World, and turns exceptions into one message and an exit
// code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "lockstep/mpi/world.hpp"
#include "mpi/print.hpp"
#include "platform/machine/launch.hpp"
#include "platform/ranks/open_groups.hpp"
#include "platform/ranks/time_limit.hpp"

namespace lockstep {
namespace {

/// How long to wait for the other ranks to end after an error, which they notice through their groups.
constexpr std::chrono::seconds time_to_come{1};
/// How long this process waits for the rank that reports the cause of an error, and its launcher, to end it. If they do
/// not, it reports what it knows.
constexpr std::chrono::seconds time_to_be_ended{3};
/// The time in which the launcher forwards earlier output. It forwards each stream of each rank separately.
constexpr std::chrono::milliseconds time_to_forward{100};
/// How long the whole shutdown may take after an error.
constexpr std::chrono::seconds time_to_end{6};

/// Ends this process after `time_to_end`, without another word: after a failure, MPI_Finalize may wait for messages
/// that no rank sends any more, and what hangs may be standard output.
std::function<void()> ending_with(int exit_code) {
  return [exit_code] { std::_Exit(exit_code); };
}

/// One run of a program's function, on this rank.
class Run {
 public:
  explicit Run(WorldOptions options) : options_(std::move(options)) {
    if (options_.program.empty()) options_.program = program_invocation_short_name;
    const auto print = [program = options_.program](std::string_view text) { print_error(program, text); };
    if (!options_.notice) options_.notice = print;
    if (!options_.on_stuck) {
      options_.on_stuck = [program = options_.program](std::string_view text) {
        const TimeLimit limit(time_to_end, ending_with(exit_timeout));
        const std::size_t end = std::min(text.find('\n'), text.size());
        print_line(program, text.substr(0, end));
        print_details(text.substr(end));
        World::abort(exit_timeout);
      };
    }
  }

  int in_world(const std::function<int(World&)>& body) {
    try {
      world_.emplace(options_);
    } catch (const Error& error) {
      return end_before_start(error);
    }
    try {
      const int code = with_output(body(*world_));  // before any rank ends: the launcher may then end the others
      if (is_child()) return code;
      world_->close();
      return code;
    } catch (const UsageError& error) {
      return end_alike(error.what(), exit_usage);
    } catch (const Error& error) {
      const std::string what = error.reported_by(world_->rank().value, world_->host()).what();
      const ExitCode code = code_of(error);
      if (error.is_on_every_rank()) return end_alike(error.what(), code);
      if (!error.is_consequence()) return end_as_cause(what, code);
      if (code == exit_timeout) explain_in_own_log(what);
      return end_together(what, code, what);
    } catch (const std::bad_alloc&) {
      return end_as_cause(here() + "not enough memory", exit_error);
    } catch (const std::exception& error) {
      return end_as_cause(here() + error.what(), exit_error);
    } catch (...) {
      return end_as_cause(here() + "an exception was thrown that is no std::exception", exit_error);
    }
  }

 private:
  void report(std::string_view what) const { print_error(options_.program, what); }
  /// Reports why the job ends, after everything that it has printed. The launcher's own messages about the end follow
  /// it, unless mpi-scripts/launch.sh delays this line.
  void report_cause(std::string_view what) const {
    std::fflush(nullptr);
    std::this_thread::sleep_for(time_to_forward);
    report(what);
  }
  static ExitCode code_of(const Error& error) { return error.code() == ErrorCode::timeout ? exit_timeout : exit_error; }
  /// Whether this process is not the rank, but a child that the program has forked. It ends by itself.
  [[nodiscard]] bool is_child() const { return !world_->open_groups()->origin().is_here(); }
  [[nodiscard]] std::string here() const {
    return "rank " + std::to_string(world_->rank().value) + " on " + world_->host() + ": ";
  }

  /// Returns the exit code after flushing output: `code`, or an error if some output could not be written.
  [[nodiscard]] int with_output(int code) const {
    const auto failure = flush_output();
    if (!failure) return code;
    report(here() + "cannot write all of standard output: " + *failure);
    return code == exit_success ? exit_error : code;
  }

  /// Ends the job if there is no World.
  int end_before_start(const Error& error) const {
    if (error.is_on_every_rank()) {
      if (first_process(read_environment())) report(error.what());
      return code_of(error);
    }
    if (error.is_consequence()) std::this_thread::sleep_for(time_to_be_ended);
    report(error.what());
    World::abort(code_of(error));
  }
  /// Ends after an error that every rank has at the same point. Rank 0 reports it.
  int end_alike(const std::string& what, ExitCode code) {
    if (world_->rank() == 0) report_cause(what);
    return end_together(what, code, world_->rank() == 0 ? "" : what);
  }
  /// Explains in the log of this rank, if it has one, what another rank reports to the user. The launcher shows no
  /// lines with this prefix.
  void explain_in_own_log(const std::string& what) const {
    if (std::getenv("LOCKSTEP_OWN_LOG") != nullptr) print_details(what + '\n' + world_->explain_ranks(), "  : ");
  }
  /// Ends after an error of this rank alone. If it is that a rank did not answer, it reports what all ranks do.
  int end_as_cause(const std::string& what, ExitCode code) {
    report_cause(what);
    if (code == exit_timeout) print_details(world_->explain_ranks());
    return end_together(what, code);
  }
  /// Closes the world if all ranks end soon, and aborts the job otherwise. Ranks notice this rank's error when they use
  /// a group, but not while they compute or wait for something else.
  /// @param to_report  reported if the job is aborted: this rank's knowledge of an error that another rank should have
  ///         reported
  int end_together(const std::string& what, ExitCode code, const std::string& to_report = {}) {
    (void)flush_output();
    if (is_child()) return code;
    world_->open_groups()->abandon_all(what);
    world_->set_deadline(time_to_come);
    try {
      const TimeLimit limit(time_to_end, ending_with(code));
      world_->close();
      return code;
    } catch (const Error&) {
      if (!to_report.empty()) {
        std::this_thread::sleep_for(time_to_be_ended);
        report(to_report);
      }
      World::abort(code);
    }
  }

  WorldOptions options_;
  std::optional<World> world_;
};

}  // namespace

int run_in_world(const WorldOptions& options, const std::function<int(World&)>& body) {
  open_standard_streams();
  return Run(options).in_world(body);
}

}  // namespace lockstep
