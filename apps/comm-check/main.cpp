// SPDX-License-Identifier: Apache-2.0
// comm-check: random operations on communicators that come and go, and every element of every result compared.
// Exit codes: apps/common/exit_codes.hpp.
#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/comm-check/member.hpp"
#include "apps/common/command_line.hpp"
#include "apps/common/exit_codes.hpp"
#include "apps/common/run_app.hpp"
#include "apps/common/same_options.hpp"
#include "apps/common/version.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/collectives/choice/choice.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace {

using namespace lockstep;
namespace options = boost::program_options;

struct Settings {
  std::optional<backends::Method> method;  ///< nothing: another one for each communicator
  double seconds = 10;
  std::uint64_t scenarios = 0;
  std::uint64_t seed = 1;
  bool progress_thread = false;
  bool blocking = false;
};

options::options_description description() {
  options::options_description flags("Options");
  flags.add_options()  //
      ("algorithm", options::value<std::string>()->default_value("any"),
       "any: another one for each communicator; auto; mpi: the MPI library's own collectives; or one of lockstep's")  //
      ("seconds", options::value<double>()->default_value(10), "how long to go on")                                   //
      ("scenarios", options::value<std::uint64_t>(), "how many scenarios, instead of how long")                       //
      ("seed", options::value<std::uint64_t>()->default_value(1), "of the first scenario")                            //
      ("blocking", "wait for each operation before the next one is submitted")                                        //
      ("progress-thread", "a thread of each rank moves operations too")                                               //
      ("version", "print the versions of lockstep and of its libraries")                                              //
      ("help", "print this text");
  return flags;
}

/// What each rank may have for itself.
constexpr std::array<std::string_view, 1> may_differ = {"progress-thread"};

std::string help_text() {
  std::ostringstream text;
  text << "Usage: mpirun -np RANKS comm-check [options]\n"
       << "Submits random collective operations on communicators that come and go, with a few under way at a time,\n"
       << "waits for them in any order, and compares every element of every result. Any difference is an error that\n"
       << "names the seed, which repeats the scenario.\n\n"
       << description() << "\nExit codes: 0 success, 1 error, 2 wrong command line.\n";
  return text.str();
}

Settings settings_of(const options::variables_map& flags) {
  const auto algorithm = flags["algorithm"].as<std::string>();
  Settings settings{.seconds = flags["seconds"].as<double>(),
                    .seed = flags["seed"].as<std::uint64_t>(),
                    .progress_thread = flags.count("progress-thread") != 0,
                    .blocking = flags.count("blocking") != 0};
  if (flags.count("scenarios") != 0) settings.scenarios = flags["scenarios"].as<std::uint64_t>();
  const auto names = backends::method_names();
  std::vector<std::string_view> choices{"any"};
  choices.insert(choices.end(), names.begin(), names.end());
  require_choice("algorithm", algorithm, choices);
  if (algorithm != choices.front()) settings.method = backends::parse_method(algorithm);
  require(settings.seconds > 0, "seconds", settings.seconds, "must be positive");
  return settings;
}

/// On which nodes a group's ranks run, in their order.
ClusterShape shape_of(const check::Members& members, const ClusterShape& world) {
  std::vector<int> nodes;
  ClusterShape shape;
  for (const int member : members) {
    const int node = world.node_of_rank[static_cast<std::size_t>(member)];
    const auto known = std::find(nodes.begin(), nodes.end(), node);
    shape.node_of_rank.push_back(static_cast<int>(known - nodes.begin()));
    if (known == nodes.end()) nodes.push_back(node);
  }
  return shape;
}

/// Those that ranks of this shape can run, the MPI library's among them.
backends::Method draw_method(const ClusterShape& shape, std::uint64_t setting) {
  const auto algorithms = collectives::candidates(CollectiveKind::all_reduce, collectives::summarize(shape));
  const std::uint64_t drawn = setting % (algorithms.size() + 2);
  if (drawn == algorithms.size()) return backends::MpiLibrary{};
  if (drawn == algorithms.size() + 1) return collectives::Selection{};
  return collectives::forced({.algorithm = algorithms[drawn]});
}

class Run {
 public:
  Run(World& world, const Settings& settings)
      : world_(world),
        settings_(settings),
        everybody_(world, {.wait = {.spins_before_yield = 0}, .progress_thread = settings.progress_thread}) {}

  void all() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(settings_.seconds);
    std::uint64_t scenarios = 0;
    std::size_t operations = 0;
    do {
      operations += one(settings_.seed + scenarios++);
    } while (
        goes_on(settings_.scenarios > 0 ? scenarios < settings_.scenarios : std::chrono::steady_clock::now() < end));
    everybody_.close();
    if (world_.rank().value > 0) return;
    std::printf("%llu scenarios, %zu operations on %d ranks: every element was right (seeds %llu to %llu)\n",
                static_cast<unsigned long long>(scenarios), operations, world_.size(),
                static_cast<unsigned long long>(settings_.seed),
                static_cast<unsigned long long>(settings_.seed + scenarios - 1));
  }

 private:
  /// Rank 0's clock counts.
  bool goes_on(bool mine) {
    auto goes_on = static_cast<std::uint8_t>(mine);
    everybody_.communicator().broadcast({&goes_on, {1}, DType::uint8}, {0}).wait();
    return goes_on != 0;
  }

  /// @return how many operations it has
  std::size_t one(std::uint64_t seed) {
    check::Limits limits{.min_ranks = world_.size(), .max_ranks = world_.size(), .max_bytes = 64 * 1024};
    if (settings_.blocking) limits.max_in_flight = 1;
    const check::Scenario scenario = check::draw_scenario(seed, limits);
    check::Member member(
        scenario, world_.rank().value, everybody_.progress(), check::Member::Together::everybody,
        [&](std::size_t group) { return make(scenario.groups[group]); }, rest);
    try {
      member.run();
    } catch (const check::WrongResult& wrong) {
      throw Error(ErrorCode::corrupt, std::string(wrong.what()) + " (--seed " + std::to_string(seed) + ")");
    }
    for (const auto& group : groups_) group->close();
    groups_.clear();
    std::size_t operations = 0;
    for (const auto& round : scenario.rounds) operations += round.size();
    return operations;
  }

  /// The group's communicator. Its member closes that; what else there is of the group, when the scenario has ended.
  std::shared_ptr<Communicator> make(const check::Group& of) {
    const auto place = std::find(of.members.begin(), of.members.end(), world_.rank().value);
    const auto color = place == of.members.end() ? std::nullopt : std::optional(0);
    const GroupOptions options{
        .method = settings_.method ? *settings_.method : draw_method(shape_of(of.members, world_.shape()), of.setting),
        .deadline = std::chrono::seconds(60)};
    auto group = everybody_.split(color, static_cast<int>(place - of.members.begin()), options);
    if (!group) return nullptr;
    groups_.push_back(std::make_shared<ProcessGroup>(*std::move(group)));
    return {groups_.back(), &groups_.back()->communicator()};
  }

  /// What a program does between its calls: nothing, give way, or be away for a while.
  static void rest(unsigned drawn) {
    if (drawn % 8 == 0) std::this_thread::yield();
    if (drawn % 64 == 1) std::this_thread::sleep_for(std::chrono::microseconds(drawn / 64 % 200));
  }

  World& world_;
  const Settings& settings_;
  ProcessGroup everybody_;
  std::vector<std::shared_ptr<ProcessGroup>> groups_;  // of this scenario
};

}  // namespace

int main(int argc, char** argv) {
  options::variables_map flags;
  Settings settings;
  std::string mistake;
  try {
    flags = read_command_line(argc, argv, description());
    if (flags.count("help") == 0 && flags.count("version") == 0) settings = settings_of(flags);
  } catch (const UsageError& error) {
    mistake = error.what();
  }
  if (flags.count("help") != 0 || flags.count("version") != 0) {
    print_once(flags.count("help") != 0 ? help_text() : version_text("comm-check"));
    return exit_success;
  }
  return run_app("comm-check", {}, [&](World& world) {
    require_same_command_line(world, mistake, settings_to_compare(flags, may_differ));
    Run(world, settings).all();
    return exit_success;
  });
}
