// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/contenders.hpp"

#include <algorithm>

#include "apps/cli/terminal.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "ddp/members.hpp"
#include "mpi/print.hpp"

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
  BlockingContender(std::string name, RankSet group) : Contender(std::move(name)), group_(std::move(group)) {}

  void run(const Collective& c) override { backends::mpi_blocking(group_, c); }
  void close() override { group_.close(); }

 private:
  RankSet group_;
};

/// Prints messages to standard error, because standard output has the table.
void tell_user(std::string_view text) { print_error("comm-bench", text); }

void all_reduce(const RankSet& group, std::span<std::int64_t> numbers, ReduceOp op) {
  const Buffer buffer{numbers.data(), {static_cast<std::int64_t>(numbers.size())}, DType::int64};
  backends::mpi_blocking(group, {.kind = CollectiveKind::all_reduce, .in = buffer, .out = buffer, .op = op});
}

}  // namespace

std::vector<std::string_view> contender_names(CollectiveKind op, Device device) {
  const bool is_all_reduce = op == CollectiveKind::all_reduce;
  if (device == Device::cuda && is_all_reduce) return {automatic, "ring", "tree", "tree-order"};
  if (device == Device::cuda) return {automatic};
  std::vector<std::string_view> names = collectives::algorithm_names(op);
  names.insert(names.begin(), automatic);
  names.insert(names.end(), {"mpi", "mpi-native"});
  return names;
}

ProcessGroup make_group(const World& world, const backends::Method& method, const Options& options) {
  GroupOptions group = options.group;
  group.notice = tell_user;
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

std::vector<Count> counts_of(const Options& options, int ranks) {
  if (options.op == CollectiveKind::barrier) return {{0}};
  return part_counts(options.sizes, size_of(options.dtype), parts_of(options.op, ranks));
}

std::vector<std::string> names_on(const World& world, const Options& options) {
  if (options.algorithms_given) return options.algorithms;
  const CollectiveKind kind = options.op;
  const auto able = candidates(kind, collectives::summarize(world.shape()), collectives::SelectedBy::tuning);
  std::vector<std::string> names;
  for (const std::string& name : options.algorithms) {
    const auto is_own = [&](collectives::Algorithm algorithm) { return algorithm_name(kind, algorithm) == name; };
    const bool is_useful = name == automatic || is_mpi_contender(name) ||
                           !uses_shared_memory(collectives::parse_algorithm(kind, name)) ||
                           std::ranges::any_of(able, is_own);
    if (is_useful) names.push_back(name);
  }
  return names;
}

backends::Method method_of(std::string_view contender, const Options& options) {
  if (is_mpi_contender(contender)) return backends::MpiLibrary{};
  collectives::Choice choice = options.choice;
  if (contender == automatic) return collectives::Selection{.untuned = choice};
  choice.algorithm = collectives::parse_algorithm(options.op, contender);
  return collectives::forced(choice);
}

std::string explanation(const World& world, const Options& options) {
  std::vector<std::string> names = names_on(world, options);
  names.erase(std::remove_if(names.begin(), names.end(), is_mpi_contender), names.end());
  if (names.empty()) throw UsageError("--explain: how the MPI library chooses is not known here");
  if (std::ranges::find(names, automatic) != names.end()) names = {std::string(automatic)};
  std::vector<Bytes> sizes;
  for (const Count count : counts_of(options, world.size())) sizes.push_back(bytes_of(count, options.dtype));
  std::string text;
  for (const std::string& name : names) {
    ProcessGroup group = make_group(world, method_of(name, options), options);
    text += group.explain(options.op, sizes, cli::table_columns());
    group.close();
  }
  return text;
}

void GroupRanks::barrier() {
  measurement_.touch();
  backends::mpi_blocking(*group_, {.kind = CollectiveKind::barrier});
}
void GroupRanks::max(std::span<std::int64_t> numbers) { all_reduce(*group_, numbers, ReduceOp::max); }
void GroupRanks::sum(std::span<std::int64_t> numbers) { all_reduce(*group_, numbers, ReduceOp::sum); }

}  // namespace lockstep::comm_bench
