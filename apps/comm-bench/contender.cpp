// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/contender.hpp"

#include <array>
#include <chrono>
#include <utility>

#include "apps/comm-bench/selection.hpp"
#include "backends/mpi_native.hpp"
#include "backends/mpi_native/blocking.hpp"
#include "backends/mpi_plan.hpp"
#include "lockstep/backends/method.hpp"

namespace lockstep::comm_bench {
namespace {

class CommunicatorContender : public Contender {
 public:
  CommunicatorContender(std::string name, std::unique_ptr<Progress> progress,
                        std::unique_ptr<Communicator> communicator)
      : Contender(std::move(name)), progress_(std::move(progress)), communicator_(std::move(communicator)) {}

  void run(const Collective& c) override { submit(c).wait(); }
  Allocation allocate(Bytes bytes) override {
    Allocation own = communicator_->allocate(bytes);
    return own.kind() == MemoryKind::host ? Allocation{} : std::move(own);
  }
  void close() override { communicator_->close(); }

 private:
  Work submit(const Collective& c) {
    switch (c.kind) {
      case CollectiveKind::all_reduce: return communicator_->all_reduce(c.in, c.out, c.op);
      case CollectiveKind::broadcast: return communicator_->broadcast(c.out, c.root);
      case CollectiveKind::all_gather: return communicator_->all_gather(c.in, c.out);
      case CollectiveKind::reduce_scatter: return communicator_->reduce_scatter(c.in, c.out, c.op);
      case CollectiveKind::reduce: return communicator_->reduce(c.in, c.out, c.op, c.root);
      case CollectiveKind::all_to_all: return communicator_->all_to_all(c.in, c.out);
      case CollectiveKind::reduce_then:  // not offered
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

std::chrono::duration<double> deadline(const Options& options) {
  return std::chrono::duration<double>(options.timeout_seconds);
}

std::unique_ptr<Contender> make_contender(const std::string& name, const World& world, const Options& options) {
  if (name == "mpi") return std::make_unique<BlockingContender>(name, world.group().dup());
  if (name != "mpi-native") return make_plan_contender(name, world, selection_for(name, world, options), options);
  auto progress = std::make_unique<Progress>(options.wait);
  auto communicator =
      backends::make_mpi_native(world.group(), *progress, {.check = options.check, .deadline = deadline(options)});
  return std::make_unique<CommunicatorContender>(name, std::move(progress), std::move(communicator));
}

}  // namespace

std::span<const std::string_view> contender_names(CollectiveKind op) {
  static const auto all_reduce = [] {
    const auto known = backends::method_names();
    std::vector<std::string_view> all(known.begin(), known.end());
    all.emplace_back("mpi-native");
    return all;
  }();
  static constexpr std::array<std::string_view, 5> rooted = {"auto", "binomial", "shared-memory", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 5> parts = {"auto", "ring", "shared-memory", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 5> all_to_all = {"auto", "pairwise", "shared-memory", "mpi",
                                                                 "mpi-native"};
  static constexpr std::array<std::string_view, 5> barrier = {"auto", "dissemination", "shared-memory", "mpi",
                                                              "mpi-native"};
  switch (op) {
    case CollectiveKind::reduce_then:
    case CollectiveKind::all_reduce: return all_reduce;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return rooted;
    case CollectiveKind::all_to_all: return all_to_all;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return parts;
    case CollectiveKind::barrier: return barrier;
  }
  return {};
}

std::unique_ptr<Contender> make_plan_contender(std::string name, const World& world,
                                               const collectives::Selection& selection, const Options& options) {
  auto progress = std::make_unique<Progress>(options.wait);
  auto communicator = backends::make_mpi_plan(
      world.group(), *progress,
      {.selection = selection, .deadline = deadline(options), .notice = [](std::string_view text) {
         std::fprintf(stderr, "comm-bench: %.*s\n", static_cast<int>(text.size()), text.data());
       }});
  return std::make_unique<CommunicatorContender>(std::move(name), std::move(progress), std::move(communicator));
}

Contenders make_contenders(const World& world, const Options& options) {
  Contenders contenders;
  for (const std::string& name : names_on(world, options)) {
    contenders.push_back(make_contender(name, world, options));
  }
  return contenders;
}

}  // namespace lockstep::comm_bench
