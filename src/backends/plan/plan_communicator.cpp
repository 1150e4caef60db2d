// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/plan_communicator.hpp"

namespace lockstep::backends {
namespace {

const PlanOptions& checked(const PlanOptions& options, const ClusterShape& shape) {
  const int ranks = shape.ranks();
  const auto at_least_one = [](std::string_view what, std::int64_t value) {
    if (value >= 1) return;
    throw Error(ErrorCode::invalid_argument, std::string(what) + " must be at least 1; it is " + std::to_string(value));
  };
  at_least_one("the number of operations in flight", options.operations_in_flight);
  at_least_one("the staging area (bytes)", options.node.staging.value);
  at_least_one("the message limit (bytes)", options.message_limit.value);
  constexpr std::int64_t largest_element = 16;
  const std::int64_t parts = shape.nodes() == 1 ? ranks : 1;  // across nodes, parts are sent as messages
  if (const std::int64_t needed = parts * largest_element; options.node.staging.value < needed) {
    throw Error(ErrorCode::invalid_argument, "the staging area must hold an element for each of the " +
                                                 std::to_string(ranks) + " ranks, " + std::to_string(needed) +
                                                 " bytes; it is " + std::to_string(options.node.staging.value));
  }
  if (options.selection.shape.ranks != ranks) {
    throw Error(ErrorCode::invalid_argument, "the selection is for " + describe(options.selection.shape) +
                                                 "; the communicator has " + std::to_string(ranks));
  }
  return options;
}

/// Returns the staging size of a block; a pulled all-reduce is one block.
Bytes staging(const PlanOptions& options) { return std::max(options.node.staging, options.node.pull_limit); }

/// Makes the link to the other ranks of this rank's node.
std::unique_ptr<NodeLink> make_link(std::shared_ptr<NodeMemory> memory, const ClusterShape& shape, Rank me,
                                    const PlanOptions& options) {
  if (!memory) return nullptr;
  return std::make_unique<NodeLink>(std::move(memory),
                                    shape.ranks_on(shape.node_of_rank[static_cast<std::size_t>(me.value)]),
                                    PlanCommunicator::channels(options), staging(options));
}

}  // namespace

int PlanCommunicator::channels(const PlanOptions& options) {
  return options.operations_in_flight * max_blocks_in_flight(options.selection);
}

Bytes PlanCommunicator::control_bytes(const PlanOptions& options) {
  return NodeLink::control_bytes(channels(options), staging(options));
}

PlanCommunicator::PlanCommunicator(const Identity& identity, std::unique_ptr<Medium> medium,
                                   std::shared_ptr<NodeMemory> node, Progress& progress, const PlanOptions& options)
    : HostCommunicator(identity.rank, identity.shape.ranks(), progress,
                       {.capabilities = {.backend = identity.backend},
                        .hostname = identity.hostname,
                        .operations_in_flight = checked(options, identity.shape).operations_in_flight,
                        .deadline = options.deadline,
                        .observer = options.observer,
                        .control = identity.control}),
      medium_(std::move(medium)),
      messages_(*medium_, identity.shape.ranks(), options.message_limit),
      link_(make_link(std::move(node), identity.shape, identity.rank, options)),
      node_options_(options.node),
      is_one_node_(identity.shape.nodes() == 1),
      ranks_per_cache_(adds_by_cache(options.selection) ? options.selection.ranks_per_cache : 0),
      max_blocks_in_flight_(max_blocks_in_flight(options.selection)),
      schedules_(identity.rank, identity.shape, options.selection, staging(options), link_ != nullptr) {}

PlanCommunicator::~PlanCommunicator() {
  if (depart()) return;
  if (link_) link_->memory().give_up("its communicator was destroyed without close(), as after an error of its own");
  park(std::shared_ptr<Medium>(std::move(medium_)));
  park(std::shared_ptr<NodeLink>(std::move(link_)));
}

Allocation PlanCommunicator::allocate(Bytes bytes) {
  const Progress::Exclusive exclusive(progress_of_rank());
  return link_ ? link_->memory().allocate(bytes) : HostCommunicator::allocate(bytes);
}

std::shared_ptr<HostOperation> PlanCommunicator::make_operation(CollectiveKind kind) {
  if (is_message(kind)) return std::make_shared<MessageOperation>(messages_);
  return std::make_shared<PlanOperation>(rank(), *medium_, link_.get(), max_blocks_in_flight_, patience_);
}

void PlanCommunicator::prepare(HostOperation& operation, const Collective& collective) {
  if (is_message(collective.kind)) return static_cast<MessageOperation&>(operation).prepare(collective);
  prepare_plan(static_cast<PlanOperation&>(operation), collective);
}

void PlanCommunicator::prepare_plan(PlanOperation& plan, const Collective& collective) {
  using collectives::Reach;
  Announcement announcement{.signature = signature_of(collective)};
  if (!link_ || is_pulled(collective)) {
    return plan.prepare(collective, schedules_.find_or_make(collective, link_ ? Reach::pulled : Reach::direct),
                        announcement, kernels::Residence::cache);
  }
  const auto locate = [this](const ConstBuffer& b) { return link_->memory().locate(b.data, b.bytes()); };
  const bool has_output = collective.out.count > 0;  // a reduce or gather has one at its root only
  const bool has_input = collective.in.count > 0 || !has_output;
  const auto input = locate(has_input ? whole_input(collective, rank(), size()) : collective.out);
  const auto output = has_output ? locate(collective.out) : input;
  Reach reach = Reach::staged;
  if (input && output) {
    reach = Reach::direct;
    announcement.input = *input;
    announcement.output = *output;
  }
  plan.prepare(collective, schedules_.find_or_make(collective, reach), announcement, residence(collective, reach));
}

/// Returns where the buffers reside. Staged data are in the cache, because the staging area is read soon after it is
/// written.
kernels::Residence PlanCommunicator::residence(const Collective& collective, collectives::Reach reach) const {
  const bool is_large = std::max(collective.in.bytes(), collective.out.bytes()) > node_options_.cache;
  return is_large && reach == collectives::Reach::direct ? kernels::Residence::memory : kernels::Residence::cache;
}

/// Returns whether each rank reduces everything by itself. All ranks get the same result, because it depends on agreed
/// values only.
bool PlanCommunicator::is_pulled(const Collective& collective) const {
  if (collective.kind != CollectiveKind::all_reduce || !is_one_node_) return false;
  // With leaves of a tree, no rank reads or shows more sums than there are leaves.
  const int leaves = collective.leaves.shares.total();
  int read = leaves > 0 ? leaves : size() - 1;
  if (ranks_per_cache_ > 0) {
    const int caches = (size() + ranks_per_cache_ - 1) / ranks_per_cache_;
    read = (leaves > 0 ? leaves : size()) / caches + caches;
  }
  return Bytes{read * collective.in.bytes().value} <= node_options_.pull_limit;
}

void PlanCommunicator::release() {
  medium_->close();
  if (link_) link_->memory().close();
}

bool PlanCommunicator::sleep_unless(bool all_are_woken, const std::function<bool()>& moved,
                                    std::chrono::nanoseconds at_most) {
  if (!link_ || !all_are_woken) {
    // Messages end this sleep. Ranks of the node, for which operations may wait as well, do not.
    constexpr std::chrono::microseconds beside_the_node{100};
    if (link_ && link_->memory().size() > 1) at_most = std::min<std::chrono::nanoseconds>(at_most, beside_the_node);
    return medium_->sleep(at_most);
  }
  NodeMemory& memory = link_->memory();
  if (medium_->is_shared()) {
    // The sleep is short because the program's own messages need help, even shorter if the last help has advanced one,
    // and because a ring between processes may be missed (`barrier_on_every_processor`).
    constexpr std::chrono::microseconds between_helps{1000};
    constexpr std::chrono::microseconds between_pieces{20};
    const bool soon = patience_ == PlanOperation::help_again;
    at_most = std::min<std::chrono::nanoseconds>(at_most, soon ? between_pieces : between_helps);
    patience_ = 0;
  }
  memory.prepare_sleep();
  if (moved()) {
    memory.cancel_sleep();
  } else {
    memory.sleep(at_most);
  }
  return true;
}

void PlanCommunicator::check_peers() {
  if (link_) return link_->check_alive();
  HostCommunicator::check_peers();
}

}  // namespace lockstep::backends
