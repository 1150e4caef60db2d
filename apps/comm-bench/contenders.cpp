// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/contenders.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "apps/comm-bench/selection.hpp"
#include "backends/mpi_native/blocking.hpp"
#include "ddp/members.hpp"

namespace lockstep::comm_bench {
namespace {

class GroupContender : public Contender {
 public:
  GroupContender(std::string name, ProcessGroup group, bool prepares)
      : Contender(std::move(name)), group_(std::move(group)), prepares_(prepares) {}

  void run(const Collective& c) override {
    Communicator& communicator = group_.communicator();
    if (!prepares_) return communicator.start(c).wait();
    if (!prepared_ || !is_for_the_buffers_of(c)) {
      prepared_.emplace(communicator.prepare(c));
      collective_ = c;
    }
    prepared_->start();
    prepared_->wait();
  }
  Allocation allocate(Bytes bytes) override {
    Allocation own = group_.allocate(bytes);
    return own.kind() == MemoryKind::host ? Allocation{} : std::move(own);
  }
  void close() override { group_.close(); }

 private:
  [[nodiscard]] bool is_for_the_buffers_of(const Collective& c) const {
    return c.in.data == collective_.in.data && c.in.count == collective_.in.count &&
           c.out.data == collective_.out.data && c.out.count == collective_.out.count;
  }

  ProcessGroup group_;
  bool prepares_;
  Collective collective_;  // the operation that was prepared last
  std::optional<Prepared> prepared_;
};

/// Runs the MPI library's blocking call, which no process group offers. lockstep makes no progress during the call.
class BlockingContender : public Contender {
 public:
  BlockingContender(std::string name, MpiGroup group) : Contender(std::move(name)), group_(std::move(group)) {}

  void run(const Collective& c) override { backends::mpi_blocking(group_, c); }
  void close() override { group_.close(); }

 private:
  MpiGroup group_;
};

/// Prints messages to standard error, because standard output has the table.
void tell_user(std::string_view text) {
  std::fprintf(stderr, "comm-bench: %.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace

std::span<const std::string_view> contender_names(CollectiveKind op, Device device) {
  static const auto all_reduce = [] {
    const auto known = algorithm_names();
    std::vector<std::string_view> all(known.begin(), known.end());
    all.emplace_back("mpi-native");
    return all;
  }();
  static constexpr std::array<std::string_view, 5> rooted = {"auto", "binomial", "shared-memory", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 5> parts = {"auto", "ring", "shared-memory", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 5> all_to_all = {"auto", "pairwise", "shared-memory", "mpi",
                                                                 "mpi-native"};
  static constexpr std::array<std::string_view, 4> pairs = {"auto", "pairwise", "mpi", "mpi-native"};
  static constexpr std::array<std::string_view, 5> barrier = {"auto", "dissemination", "shared-memory", "mpi",
                                                              "mpi-native"};
  static constexpr std::array<std::string_view, 4> by_nccl = {"auto", "ring", "tree", "tree-order"};
  if (device == Device::cuda) return std::span(by_nccl).first(op == CollectiveKind::all_reduce ? by_nccl.size() : 1);
  switch (op) {
    case CollectiveKind::all_reduce: return all_reduce;
    case CollectiveKind::broadcast:
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::reduce: return rooted;
    case CollectiveKind::all_to_all: return all_to_all;
    case CollectiveKind::all_to_all_v: return pairs;
    case CollectiveKind::all_gather:
    case CollectiveKind::all_gather_v:
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::reduce_scatter: return parts;
    case CollectiveKind::barrier: return barrier;
    case CollectiveKind::send:
    case CollectiveKind::recv: break;
  }
  return {};
}

ProcessGroup make_group(const World& world, const backends::Method& method, const Options& options) {
  const GroupOptions group{.device = options.device,
                           .tuning = options.tuning,
                           .wait = options.wait,
                           .deadline = std::chrono::duration<double>(options.timeout_seconds),
                           .check = options.check,
                           .notice = tell_user};
  return ddp::group_of(ddp::members_of(world.group().dup(), group, std::nullopt, method), group);
}

std::unique_ptr<Contender> make_contender(std::string name, const World& world, const backends::Method& method,
                                          const Options& options, bool prepares) {
  return std::make_unique<GroupContender>(std::move(name), make_group(world, method, options), prepares);
}

Contenders make_contenders(const World& world, const Options& options) {
  Contenders contenders;
  for (const std::string& name : names_on(world, options)) {
    if (name == "mpi") {
      contenders.push_back(std::make_unique<BlockingContender>(name, world.group().dup()));
    } else {
      contenders.push_back(make_contender(name, world, method_of(name, options), options, options.prepared));
    }
  }
  return contenders;
}

}  // namespace lockstep::comm_bench
