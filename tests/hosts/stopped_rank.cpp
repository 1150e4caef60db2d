// SPDX-License-Identifier: Apache-2.0
// This program runs all-reduces, in the middle of which a rank is stopped (SIGSTOP). Each rank that gives up writes its
// error in one line.
//   stopped_rank METHOD RANK    RANK is stopped; the next one comes late, so the others have waited for longer
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backends/make_agreed.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"

namespace {

using namespace std::chrono_literals;

constexpr auto deadline = 1500ms;
constexpr int operations = 20;

void reduce_until_one_stops(lockstep::Communicator& communicator, int stopped) {
  std::vector<float> data(1000, 1.0F);
  const lockstep::Buffer buffer{data.data(), {1000}, lockstep::DType::float32};
  const int rank = communicator.rank().value;
  for (int k = 0; k < operations; ++k) {
    if (k == operations / 2 && rank == stopped) raise(SIGSTOP);
    if (k == operations / 2 && rank == (stopped + 1) % communicator.size()) std::this_thread::sleep_for(deadline / 3);
    communicator.all_reduce(buffer, buffer, lockstep::ReduceOp::sum).wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return EXIT_FAILURE;
  lockstep::World world;
  lockstep::Progress progress({.spins_before_yield = 0});
  const auto communicator = lockstep::backends::make_agreed(
      world.group(), progress, {.method = lockstep::backends::parse_method(argv[1]), .plan = {.deadline = deadline}});
  try {
    reduce_until_one_stops(*communicator, std::stoi(argv[2]));
  } catch (const lockstep::Error& error) {
    if (!error.is_consequence()) std::fputs((std::string(error.what()) + "\n").c_str(), stderr);
    std::this_thread::sleep_for(500ms);  // so that other ranks that also give up can write theirs
  }
  MPI_Abort(MPI_COMM_WORLD, 3);
}
