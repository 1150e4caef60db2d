// SPDX-License-Identifier: Apache-2.0
// A program for run_app_test. Its argument selects its behavior, which is mostly faulty.

#include <mpi.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "apps/cli/run_app.hpp"
#include "apps/cli/terminal.hpp"
#include "lockstep/lockstep.hpp"
#include "platform/ranks/bootstrap.hpp"

namespace {

using lockstep::Error;
using lockstep::ErrorCode;
using lockstep::ReduceOp;
using lockstep::World;

std::vector<float> numbers(100'000, 1);

/// Does what every rank finds at the end of a step: rank 1 leaves out a gradient. The error destroys the group.
void forget_a_gradient(const World& world) {
  lockstep::ProcessGroup group(world);
  std::vector<float> weight(10);
  std::vector<float> gradient(10, 1);
  lockstep::DataParallel parallel(group, {{"weight", weight, gradient}});
  if (group.rank() != 1) parallel.ready(0);
  (void)parallel.finish(1);
}

/// Takes a training step with a group and a part of it, and leaves everything open.
void train(const World& world) {
  lockstep::ProcessGroup group(world, {.progress_thread = true});
  auto part = group.split(0, -group.rank().value);
  std::vector<float> weight(10);
  std::vector<float> gradient(10, 1);
  lockstep::DataParallel parallel(*part, {{"weight", weight, gradient}});
  parallel.ready(0);
  const double samples = parallel.finish(1).weight;
  group.communicator().all_reduce(numbers, numbers, ReduceOp::sum).wait();
  if (samples != world.size() || gradient[9] != numbers[0]) throw std::logic_error("wrong sums");
}

/// Fails on rank 1 while the others wait for it, in a group or where they cannot be notified.
void fail_alone(const World& world, const std::string& manner) {
  lockstep::ProcessGroup group(world);
  std::printf("unfinished");
  if (world.rank() == 1) {
    if (manner == "foreign") throw std::runtime_error("not one of ours");
    if (manner == "number") throw 7;
    throw Error(ErrorCode::io, "disk full");
  }
  manner == "deaf" ? barrier(world.group()) : group.communicator().all_reduce(numbers, numbers, ReduceOp::sum).wait();
}

/// Forks a child that ends as a rank does, with all handles of its parent, which goes on afterwards. The child says
/// what it is told.
void fork_child(const World& world) {
  lockstep::ProcessGroup group(world, {.progress_thread = true});
  const std::unique_ptr<lockstep::Communicator> another = group.new_communicator();
  const lockstep::Allocation memory = group.allocate({8});
  auto& value = *static_cast<double*>(memory.data());
  value = 3;
  std::vector<float> weight(10);
  std::vector<float> gradient(10, 1);
  lockstep::DataParallel parallel(group, {{"weight", weight, gradient}});
  const bool forks = world.rank().value == world.size() - 1;
  if (!forks) group.sum(0);  // the barrier is under way when the child is forked
  lockstep::Work pending = another->barrier();
  const pid_t child = forks ? fork() : -1;
  if (child == 0) {
    const auto try_to = [](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        std::puts(error.message().find("a child of fork()") != std::string::npos ? "refused" : error.what());
      }
    };
    group.abort("a child has no say");
    try_to([&] { group.sum(1); });
    try_to([&] { pending.wait(); });
    try_to([&] { parallel.ready(0); });
    try_to([&] { (void)group.split(0, 0); });
    try_to([&] { (void)world.group().dup(); });
    try_to([&] { another->close(); });
    try_to([&] { group.close(); });
    std::fflush(stdout);
    return;
  }
  int status = 0;
  if (forks && (waitpid(child, &status, 0) != child || status != 0)) throw std::logic_error("the child failed");
  if (forks) group.sum(0);
  pending.wait();
  parallel.ready(0);
  const double samples = parallel.finish(1).weight;
  if (samples != world.size() || group.sum(value) != 3 * samples) throw std::logic_error("wrong sums");
  another->close();
}

/// Uses a group on each of two threads, at the same time.
void use_threads(const World& world) {
  lockstep::ProcessGroup first(world, {.wait = {.spins_before_yield = 0}});
  lockstep::ProcessGroup second(world, {.wait = {.spins_before_yield = 0}});
  std::atomic<int> wrong = 0;
  const auto work = [&wrong](lockstep::ProcessGroup& group, int count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (int round = 0; round < 50; ++round) {
      values.assign(values.size(), 1);
      group.communicator().all_reduce(values, values, ReduceOp::sum).wait();
      if (values.back() != static_cast<float>(group.size()) || group.sum(round) != round * group.size()) ++wrong;
    }
  };
  std::thread another([&] { work(second, 10'000); });
  work(first, 7);
  another.join();
  if (wrong != 0) throw std::logic_error("wrong sums");
}

std::optional<lockstep::ProcessGroup> outside;
std::optional<lockstep::Work> pending;

void behave(World& world, const std::string& manner) {
  const bool second = world.rank() == 1;
  if (manner == "usage") throw lockstep::UsageError("no such option");
  if (manner == "agreed") {
    agree(world.group(), second ? std::optional(Error(ErrorCode::io, "disk full")) : std::nullopt);
  }
  if (manner == "forgotten") forget_a_gradient(world);
  if (manner == "open") train(world);
  if (manner == "fork") fork_child(world);
  if (manner == "threads") use_threads(world);
  if (manner == "outside" || manner == "pending")
    outside.emplace(world, lockstep::GroupOptions{.progress_thread = true});
  if (manner == "pending_inside") {
    lockstep::ProcessGroup group(world);
    if (!second) (void)group.communicator().barrier();
  }
  if (manner == "dropped") {
    lockstep::ProcessGroup group(world);
    if (!second) (void)group.communicator().barrier();
    barrier(world.group());  // rank 1 begins its operation later, so that rank 0's is still under way
    if (second) group.communicator().barrier().wait();
    // More operations than can be under way at a time, so that the dropped one has ended on all ranks.
    for (int i = 0; i < 100; ++i) group.communicator().barrier().wait();
  }
  if (manner == "pending" && !second) pending.emplace(outside->communicator().barrier());
  if (manner == "alone" || manner == "deaf" || manner == "foreign" || manner == "number") fail_alone(world, manner);
  if ((manner == "late" || manner == "never") && second) {
    std::this_thread::sleep_for(manner == "late" ? std::chrono::milliseconds(500) : std::chrono::minutes(1));
    throw Error(ErrorCode::io, "disk full");
  }
  if (manner == "terminal" && !second) std::puts(lockstep::cli::shows_on_terminal() ? "terminal" : "no terminal");
  if (manner == "print") std::puts("printed");
  if (manner == "streams") {
    struct stat null {};
    struct stat stream {};
    stat("/dev/null", &null);
    for (const int number : {0, 1, 2}) {
      if (fstat(number, &stream) != 0 || stream.st_rdev != null.st_rdev)
        throw Error(ErrorCode::io, "descriptor " + std::to_string(number) + " is not /dev/null");
    }
  }
}

/// Does what a program does that does not use lockstep::run.
int plain_main() {
  World world;
  train(world);
  return 0;
}

/// Does what an MPI program does that leaves everything to destructors, which run after MPI_Finalize.
int mpi_main(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  World world;
  lockstep::ProcessGroup group(world);
  group.communicator().all_reduce(numbers, numbers, ReduceOp::sum).wait();
  MPI_Finalize();
  return 0;
}

/// Leaves a World that its destructor cannot close.
int pending_main() {
  World world;
  behave(world, "pending");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string manner = argc > 1 ? argv[1] : "";
  if (manner == "plain") return plain_main();
  if (manner == "mpi") return mpi_main(&argc, &argv);
  if (manner == "pending_plain") return pending_main();
  if (manner == "seven") return lockstep::run({.program = "seven"}, [](World&) { return 7; });
  const lockstep::WorldOptions options{.deadline = std::chrono::seconds(manner == "never" ? 2 : 60)};
  [[maybe_unused]] const pid_t parent = getpid();
  const int code = lockstep::run(options, [&](World& world) { behave(world, manner); });
#if defined(__SANITIZE_ADDRESS__)
  // The check for leaks would look for threads that a child of fork() has not got, and for what only they point to.
  if (getpid() != parent) std::_Exit(code);
#endif
  return code;
}
