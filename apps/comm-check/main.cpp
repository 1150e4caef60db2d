// SPDX-License-Identifier: Apache-2.0
// comm-check runs random operations on communicators that come and go, and checks every element of every result.
// Exit codes: ExitCode in lockstep/mpi/world.hpp.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>

#include "apps/cli/help.hpp"
#include "apps/cli/run_app.hpp"
#include "apps/comm-check/member.hpp"
#include "collectives/choice/choice.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "mpi/print.hpp"

namespace lockstep::comm_check {
namespace {

using namespace cli;

struct Settings {
  std::string algorithm = "any";  ///< "any": each communicator gets another one
  double seconds = 10;
  std::uint64_t scenarios = 0;  ///< 0: as many as fit into `seconds`
  std::uint64_t seed = 1;
  bool progress_thread = false;
  bool blocking = false;
};

OptionGroup options_of(Settings& s) {
  std::vector<std::string_view> algorithms{"any"};
  const auto names = algorithm_names();
  algorithms.insert(algorithms.end(), names.begin(), names.end());
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return {
      "Options",
      {row("algorithm", Word{algorithms}, "any",
           "any: another one for each communicator; mpi: the MPI library's own collectives", into(s.algorithm)),
       row("seconds", Real{.min = 0, .max = 1e7, .above_min = true}, "10", "run time", into(s.seconds)),
       row("scenarios", Whole{1, most}, no_default, "number of scenarios, instead of a run time", into(s.scenarios)),
       row("seed", Whole{0, most}, "1", "seed of the first scenario", into(s.seed)),
       row("blocking", Switch{}, "no", "wait for each operation before the next one is submitted", into(s.blocking)),
       row("progress-thread", Switch{}, "no", "let a thread of each rank progress operations, too",
           into(s.progress_thread), Scope::each_rank)}};
}

Program program_of(Settings& settings) {
  return {.name = "comm-check",
          .synopsis = "mpirun -np RANKS comm-check [options], or torchrun --no-python … comm-check [options]",
          .about =
              "Submits random collective operations on communicators that come and go, with a few in flight at a time, "
              "waits for them in any order, and compares every element of every result. Any difference is an error "
              "that names the seed, which repeats the scenario.",
          .groups = {options_of(settings), general_options()}};
}

/// Returns the nodes on which a group's ranks run, in rank order.
ClusterShape shape_of(const Members& members, const ClusterShape& world) {
  std::vector<int> nodes;
  ClusterShape shape;
  for (const int member : members) {
    const int node = world.node_of_rank[static_cast<std::size_t>(member)];
    const auto known = std::ranges::find(nodes, node);
    shape.node_of_rank.push_back(static_cast<int>(known - nodes.begin()));
    if (known == nodes.end()) nodes.push_back(node);
  }
  return shape;
}

/// Draws one of the algorithms that ranks of this shape can run.
std::string draw_algorithm(const ClusterShape& shape, bool has_mpi, std::uint64_t setting) {
  const auto algorithms = collectives::candidates(CollectiveKind::all_reduce, collectives::summarize(shape),
                                                  collectives::SelectedBy::tuning);
  const std::uint64_t drawn = setting % (algorithms.size() + (has_mpi ? 2 : 1));
  if (drawn == algorithms.size()) return "auto";
  if (drawn == algorithms.size() + 1) return "mpi";
  return std::string(name(algorithms[drawn]));
}

class Run {
 public:
  Run(RankSet ranks, bool has_mpi, const Settings& settings)
      : has_mpi_(has_mpi),
        shape_(ranks.shape()),
        settings_(settings),
        all_(std::move(ranks), {.wait = {.spins_before_yield = 0}, .progress_thread = settings.progress_thread}) {}

  void all() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(settings_.seconds);
    std::uint64_t scenarios = 0;
    std::size_t operations = 0;
    do {
      operations += one(settings_.seed + scenarios++);
    } while (agree_to_continue(settings_.scenarios > 0 ? scenarios < settings_.scenarios
                                                       : std::chrono::steady_clock::now() < end));
    all_.close();
    if (all_.rank() > 0) return;
    std::printf("%llu scenarios, %zu operations on %d ranks: every element was right (seeds %llu to %llu)\n",
                static_cast<unsigned long long>(scenarios), operations, all_.size(),
                static_cast<unsigned long long>(settings_.seed),
                static_cast<unsigned long long>(settings_.seed + scenarios - 1));
  }

 private:
  /// Rank 0 decides by its clock whether all ranks run another scenario.
  bool agree_to_continue(bool mine) {
    auto continues = static_cast<std::uint8_t>(mine);
    all_.communicator().broadcast({&continues, {1}, DType::uint8}, {0}).wait();
    return continues != 0;
  }

  /// Runs one scenario. @return its number of operations
  std::size_t one(std::uint64_t seed) {
    Limits limits{.min_ranks = all_.size(), .max_ranks = all_.size(), .max_bytes = 64 * 1024};
    if (settings_.blocking) limits.max_in_flight = 1;
    const Scenario scenario = draw_scenario(seed, limits);
    Member member(
        scenario, all_.rank().value, all_.progress(), Member::Together::all_ranks,
        [&](std::size_t group) { return make(scenario.groups[group]); }, pause);
    try {
      member.run();
    } catch (const WrongResult& wrong) {
      throw Error(ErrorCode::corrupt, std::string(wrong.what()) + " (--seed " + std::to_string(seed) + ")");
    }
    for (const auto& group : groups_) group->close();
    groups_.clear();
    std::size_t operations = 0;
    for (const auto& round : scenario.rounds) operations += round.size();
    return operations;
  }

  /// Makes the group's communicator. Its member closes it; the rest of the group is destroyed after the scenario.
  std::shared_ptr<Communicator> make(const Group& of) {
    const auto place = std::ranges::find(of.members, all_.rank().value);
    const auto color = place == of.members.end() ? std::nullopt : std::optional(0);
    const GroupOptions options{.algorithm = settings_.algorithm == "any"
                                                ? draw_algorithm(shape_of(of.members, shape_), has_mpi_, of.setting)
                                                : settings_.algorithm,
                               .deadline = std::chrono::seconds(60)};
    auto group = all_.split(color, static_cast<int>(place - of.members.begin()), options);
    if (!group) return nullptr;
    groups_.push_back(std::make_shared<ProcessGroup>(*std::move(group)));
    return {groups_.back(), &groups_.back()->communicator()};
  }

  /// Does what a program may do between its calls: nothing, yield, or sleep for a while.
  static void pause(unsigned drawn) {
    if (drawn % 8 == 0) std::this_thread::yield();
    if (drawn % 64 == 1) std::this_thread::sleep_for(std::chrono::microseconds(drawn / 64 % 200));
  }

  bool has_mpi_;
  ClusterShape shape_;
  const Settings& settings_;
  ProcessGroup all_;
  std::vector<std::shared_ptr<ProcessGroup>> groups_;  // groups of this scenario
};

/// Runs on ranks that MPI has not started. @return the exit code
int run_without_mpi(const Program& program, int argc, const char* const* argv, const Settings& settings) {
  try {
    OptionValues values = read_command_line(argc, argv, program);
    values.store();
    if (const std::string text = requested_text(values, program); !text.empty()) return print_once(program.name, text);
    Run(from_environment(), false, settings).all();
    return exit_success;
  } catch (const UsageError& error) {
    print_error(program.name, error.what());
    return exit_usage;
  } catch (const std::exception& error) {
    print_error(program.name, error.what());
    return exit_error;
  }
}

int run(int argc, const char* const* argv) {
  Settings settings;
  const Program program = program_of(settings);
  if (std::getenv("RANK") != nullptr && std::getenv("MASTER_ADDR") != nullptr)
    return run_without_mpi(program, argc, argv, settings);
  return run_app(program, argc, argv, {}, [&](World& world) {
    Run(world.group().dup(), true, settings).all();
    return exit_success;
  });
}

}  // namespace
}  // namespace lockstep::comm_check

int main(int argc, char** argv) { return lockstep::comm_check::run(argc, argv); }
