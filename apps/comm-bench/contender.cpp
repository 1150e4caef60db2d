#include "apps/comm-bench/contender.hpp"

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "lockstep/backends/mpi_native.hpp"
#include "lockstep/backends/mpi_native/blocking.hpp"
#include "lockstep/backends/mpi_plan.hpp"

namespace lockstep::comm_bench {
namespace {

class CommunicatorContender : public Contender {
 public:
  CommunicatorContender(std::string name, std::unique_ptr<Progress> progress,
                        std::unique_ptr<Communicator> communicator)
      : Contender(std::move(name)), progress_(std::move(progress)), communicator_(std::move(communicator)) {}

  void run(const Collective& c) override { submit(c).wait(); }
  void close() override { communicator_->close(); }

 private:
  Work submit(const Collective& c) {
    switch (c.kind) {
      case CollectiveKind::all_reduce: return communicator_->all_reduce(c.in, c.out, c.op);
      case CollectiveKind::broadcast: return communicator_->broadcast(c.out, c.root);
      case CollectiveKind::all_gather: return communicator_->all_gather(c.in, c.out);
      case CollectiveKind::reduce_scatter: return communicator_->reduce_scatter(c.in, c.out, c.op);
      case CollectiveKind::barrier: break;
    }
    return communicator_->barrier();
  }

  std::unique_ptr<Progress> progress_;  // before the communicator, which is registered with it
  std::unique_ptr<Communicator> communicator_;
};

class BlockingContender : public Contender {
 public:
  BlockingContender(std::string name, MpiGroup group) : Contender(std::move(name)), group_(std::move(group)) {}

  void run(const Collective& c) override { backends::mpi_blocking(group_, c); }
  void close() override { group_.close(); }

 private:
  MpiGroup group_;
};

WaitPolicy wait_policy(const World& world) {
  const bool crowded = world.place().local_size > static_cast<int>(std::thread::hardware_concurrency());
  return crowded ? WaitPolicy{.spins_before_yield = 0} : WaitPolicy{};
}

std::unique_ptr<Communicator> make_communicator(const std::string& name, const World& world, Progress& progress,
                                                const Options& options) {
  const std::chrono::duration<double> deadline(options.timeout_seconds);
  if (name == "mpi-native") {
    return backends::make_mpi_native(world.group(), world.host(), progress, {.deadline = deadline});
  }
  backends::PlanOptions plan{.segment = options.segment, .blocks_in_flight = options.in_flight, .deadline = deadline};
  if (options.op == CollectiveKind::all_reduce) plan.algorithm = collectives::parse_algorithm(name);
  return backends::make_mpi_plan(world.group(), world.host(), progress, plan);
}

std::unique_ptr<Contender> make_contender(const std::string& name, const World& world, const Options& options) {
  if (name == "mpi") return std::make_unique<BlockingContender>(name, world.group().dup());
  auto progress = std::make_unique<Progress>(wait_policy(world));
  auto communicator = make_communicator(name, world, *progress, options);
  return std::make_unique<CommunicatorContender>(name, std::move(progress), std::move(communicator));
}

}  // namespace

std::span<const std::string_view> contender_names(CollectiveKind op) {
  static constexpr std::array<std::string_view, 7> all_reduce = {
      "ring", "tree", "halving-doubling", "recursive-doubling", "tree-order", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 3> broadcast = {"binomial", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 3> parts = {"ring", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 3> barrier = {"dissemination", "mpi", "mpi-native"};
  switch (op) {
    case CollectiveKind::all_reduce: return all_reduce;
    case CollectiveKind::broadcast: return broadcast;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return parts;
    case CollectiveKind::barrier: return barrier;
  }
  return {};
}

Contenders make_contenders(const World& world, const Options& options) {
  Contenders contenders;
  for (const std::string& name : options.algorithms) {
    contenders.push_back(make_contender(name, world, options));
  }
  return contenders;
}

}  // namespace lockstep::comm_bench
