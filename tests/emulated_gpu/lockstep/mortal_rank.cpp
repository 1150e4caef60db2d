// SPDX-License-Identifier: Apache-2.0
// mortal_rank FOLDER METHOD SECONDS MILLISECONDS   runs under mpiexec. All ranks reduce repeatedly, with a deadline of
// SECONDS; the last one submits an all_reduce, and kills itself MILLISECONDS later. It writes FOLDER/death, the others
// write FOLDER/<rank>: nanoseconds of the clock that all processes of a host read, and the outcome.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "emulated_gpu/lockstep/outcome.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;

/// Writes a file atomically for its readers.
void write_down(const std::filesystem::path& file, const std::string& words) {
  const std::filesystem::path draft = file.string() + ".draft";
  std::ofstream(draft) << Clock::now().time_since_epoch() / 1ns << ' ' << words << std::flush;
  std::filesystem::rename(draft, file);
}

/// Ends without MPI_Finalize, in which a dead rank cannot take part, after all have written. A rank that ended earlier
/// would be named as well.
[[noreturn]] void end_together(const std::filesystem::path& folder, int survivors) {
  for (int rank = 0; rank < survivors; ++rank)
    for (int i = 0; i < 3000 && !std::filesystem::exists(folder / std::to_string(rank)); ++i)
      std::this_thread::sleep_for(10ms);
  _exit(0);
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const std::filesystem::path folder = argv[1];
  const World world;
  ProcessGroup group(world, {.device = Device::cuda,
                             .algorithm = argv[2],
                             .wait = {.spins_before_yield = 0},
                             .deadline = std::chrono::seconds(std::stoi(argv[3]))});
  const Allocation memory = group.allocate({1 << 16});
  const Buffer values = memory.as(DType::float32);
  const auto add_up = [&] { group.communicator().all_reduce(values, values, ReduceOp::max).wait(); };
  for (int k = 0; k < 5; ++k) add_up();
  const int victim = world.size() - 1;
  if (world.rank().value == victim) {
    Work last = group.communicator().all_reduce(values, values, ReduceOp::max);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(argv[4])));
    write_down(folder / "death", "");
    raise(SIGKILL);
  }
  const auto outcome = on_emulated_gpus::outcome_of([&] {
    for (;;) add_up();
  });
  const std::string verdict = outcome.names(victim) ? "names" : "does-not-name";
  write_down(folder / std::to_string(world.rank().value), verdict + " the victim: " + outcome.error->what());
  end_together(folder, victim);
}
