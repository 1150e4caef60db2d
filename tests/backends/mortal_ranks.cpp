// SPDX-License-Identifier: Apache-2.0
// This program runs ranks that share memory and are killed: 2 or more, under mpiexec, or without MPI by the variables
// that torchrun sets.
//   mortal_ranks await FOLDER spin|sleep SECONDS METHOD VICTIM SIGNAL   the rank VICTIM raises a signal, or ends with
//                                                  exit code 0 if that is 0, while the others wait for it in an
//                                                  all_reduce with this deadline by METHOD, or if that is `sockets`, by
//                                                  a ring over these; if it is `nodes`, as ranks of a node each; it
//                                                  writes FOLDER/death, they FOLDER/<rank>
//   mortal_ranks repeat MARKER                     makes communicators, reduces with them and closes them, forever; the
//                                                  marker identifies its processes
// Times are nanoseconds of the clock that all processes of a host read.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/make_agreed.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/ranks/rank_link.hpp"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;

constexpr std::string_view sockets = "sockets";
constexpr std::string_view nodes = "nodes";

/// The ranks, which take themselves for ranks of a node each.
RankSet on_nodes_of_their_own(RankSet ranks) {
  auto members = std::make_shared<RankSet::Members>(RankSet::Members{ranks.hosts(), {}});
  for (int rank = 0; rank < ranks.size(); ++rank) members->shape.node_of_rank.push_back(rank);
  ranks.link().members = members;
  return ranks.dup();
}

RankSet get_ranks(std::optional<World>& world, std::chrono::seconds deadline) {
  return std::getenv("RANK") != nullptr ? from_environment(deadline) : world.emplace().group().dup();
}

std::unique_ptr<Communicator> make(const RankSet& ranks, Progress& progress, std::chrono::seconds deadline,
                                   const std::string& method = "shared-memory") {
  const bool by_sockets = method == sockets;
  return backends::make_agreed(
      ranks, progress,
      {.method = backends::parse_method(by_sockets || method == nodes ? "ring" : method),
       .plan = {.sockets = by_sockets ? backends::Sockets::everywhere : backends::Sockets::automatic,
                .deadline = deadline}});
}

void add_up(Communicator& c, const Buffer& values) { c.all_reduce(values, values, ReduceOp::max).wait(); }

/// Writes a file atomically for its readers. @param words  the text after the time
void write_down(const std::filesystem::path& file, const std::string& words) {
  const std::filesystem::path draft = file.string() + ".draft";
  std::ofstream(draft) << Clock::now().time_since_epoch() / 1ns << ' ' << words << std::flush;
  std::filesystem::rename(draft, file);
}

/// Ends without MPI_Finalize, in which a dead rank cannot take part, after all have written. A rank that ended earlier
/// would be named as well.
[[noreturn]] void end_together(const std::filesystem::path& folder, int ranks, int victim) {
  for (int rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < 3000 && rank != victim && !std::filesystem::exists(folder / std::to_string(rank)); ++i)
      std::this_thread::sleep_for(10ms);
  _exit(0);
}

struct Death {
  int victim = 0;
  int signal = 0;
};

[[noreturn]] void await(const std::filesystem::path& folder, const std::string& manner, std::chrono::seconds deadline,
                        const std::string& method, Death death) {
  std::optional<World> world;
  RankSet ranks = get_ranks(world, deadline);
  if (method == nodes) ranks = on_nodes_of_their_own(std::move(ranks));
  Progress progress(make_wait_policy(manner, 0));
  const auto c = make(ranks, progress, deadline, method);
  const Allocation memory = c->allocate({1 << 20});
  const Buffer all = memory.as(DType::float32);
  const Buffer values = method == sockets || method == nodes ? slice(all, {0}, {100}) : all;
  for (int i = 0; i < 10; ++i) add_up(*c, values);
  const int victim = death.victim;
  if (ranks.rank() == Rank{victim}) {
    std::this_thread::sleep_for(300ms);  // until the others wait in the requested manner
    write_down(folder / "death", "");
    if (death.signal == 0) _exit(0);
    raise(death.signal);
  }
  std::string outcome = "completed";
  try {
    add_up(*c, values);
  } catch (const Error& error) {
    // The first rank to notice notifies the others, which then name both.
    const std::vector<int>& peers = error.context().peers;
    const bool names = error.is_consequence() ? peers.back() == victim : peers == std::vector{victim};
    outcome =
        std::string(name(error.code())) + ' ' + (names ? "names" : "does-not-name") + " the victim: " + error.what();
  }
  write_down(folder / std::to_string(ranks.rank().value), outcome);
  end_together(folder, ranks.size(), victim);
}

[[noreturn]] void repeat() {
  constexpr std::chrono::seconds deadline{5};  // without a launcher that ends the ranks of a job
  std::optional<World> world;
  const RankSet ranks = get_ranks(world, deadline);
  Progress progress({.spins_before_yield = 0});
  for (;;) {
    const auto c = make(ranks, progress, deadline);
    const Allocation shared = c->allocate({1 << 20});
    std::vector<float> ordinary(1 << 18);
    for (int i = 0; i < 20; ++i) {
      for (const std::int64_t count : {1, 5'000, 1 << 18}) {
        add_up(*c, slice(shared.as(DType::float32), {0}, {count}));
        add_up(*c, Buffer{ordinary.data(), {count}, DType::float32});
      }
    }
    c->close();
  }
}

}  // namespace

int main(int /*argc*/, char** argv) {
  if (std::string(argv[1]) == "repeat") repeat();
  await(argv[2], argv[3], std::chrono::seconds(std::stoi(argv[4])), argv[5], {std::stoi(argv[6]), std::stoi(argv[7])});
}
