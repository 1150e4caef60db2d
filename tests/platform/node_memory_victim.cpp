// SPDX-License-Identifier: Apache-2.0
// One rank of a node is killed; a child process of each other rank records which rank it names as dead.
//   node_memory_victim FOLDER    writes FOLDER/0 and FOLDER/2, under mpiexec with 3 ranks
// The child process is not reached by a launcher that ends the whole job as soon as one rank has died.
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "lockstep/mpi/world.hpp"
#include "platform/node_memory/node_memory.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/make_node_memory.hpp"

namespace {

using namespace std::chrono_literals;

void watch(const lockstep::NodeMemory& memory, const std::filesystem::path& report) {
  const std::filesystem::path draft = report.string() + ".draft";
  std::ofstream file(draft);
  for (int i = 0; i < 10'000; ++i) {
    if (const auto lost = memory.lost_peer()) {
      file << lost->rank << std::flush;
      break;
    }
    std::this_thread::sleep_for(1ms);
  }
  std::filesystem::rename(draft, report);
}

}  // namespace

int main(int /*argc*/, char** argv) {
  constexpr int victim = 1;
  const lockstep::World world;
  std::string why_not;
  const auto memory = lockstep::make_node_memory(world.node_group(), {}, why_not);
  if (memory == nullptr || memory->lost_peer()) {
    std::printf("%s\n", why_not.c_str());
    world.abort(3);
  }
  lockstep::barrier(world.node_group());
  if (memory->rank() != victim) {
    // The launcher sends SIGTERM to the other ranks a second before it kills them: for that second only the victim is
    // dead.
    std::signal(SIGTERM, SIG_IGN);
    // The rank waits until its child has left its process group, which the launcher kills as a whole.
    std::array<int, 2> ready{};
    char byte = 0;
    if (pipe(ready.data()) != 0) world.abort(4);
    if (fork() == 0) {
      setsid();
      if (write(ready[1], &byte, 1) == 1)
        watch(*memory, std::filesystem::path(argv[1]) / std::to_string(memory->rank()));
      _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1) world.abort(4);
  }
  lockstep::barrier(world.node_group());
  if (memory->rank() == victim) raise(SIGKILL);
  for (;;) pause();
}
