// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_plan.hpp"

#include <string>
#include <utility>
#include <vector>

#include "backends/plan/message_medium.hpp"
#include "backends/plan/plan_communicator.hpp"
#include "backends/shared_node.hpp"
#include "base/hash.hpp"
#include "lockstep/base/error.hpp"
#include "platform/mpi/make_control_channel.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::backends {
namespace {

std::string to_text(const collectives::Choice& choice) {
  return std::string(name(choice.algorithm)) + " in segments of " + std::to_string(choice.segment.value) + " bytes, " +
         std::to_string(choice.blocks_in_flight) + " blocks in flight, radix " + std::to_string(choice.radix);
}

/// Digests a table into a few digits, so that ranks can tell theirs from others'.
std::string fingerprint(const collectives::SelectionTable& table) {
  Fnv1a hash;
  for (const collectives::TableEntry& entry : table.entries()) {
    hash.add(std::string(name(entry.kind)) + describe(entry.shape) + to_text(entry.choice));
    hash.add(entry.from.value);
    hash.add(entry.below.value);
  }
  return std::to_string(table.entries().size()) + " entries, fingerprint " + std::to_string(hash.value());
}

/// What decides who sends what to whom, and where it lies: different on one rank, it would send what nobody awaits, or
/// write where another one reads.
std::vector<Setting> settings_of(const PlanOptions& options) {
  std::vector<Setting> settings{{"back end", "mpi_plan"},
                                {"operations in flight", std::to_string(options.operations_in_flight)},
                                {"staging area (bytes)", std::to_string(options.node.staging.value)},
                                {"pull limit (bytes)", std::to_string(options.node.pull_limit.value)},
                                {"message limit (bytes)", std::to_string(options.message_limit.value)}};
  const collectives::Selection& selection = options.selection;
  settings.push_back({"algorithm", selection.forced ? to_text(*selection.forced) : "auto"});
  settings.push_back({"selection table", fingerprint(selection.table)});
  settings.push_back({"untuned choice", to_text(selection.untuned)});
  return settings;
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_plan(const MpiGroup& group, Progress& progress, const PlanOptions& options) {
  require_equal(group, settings_of(options));
  PlanOptions able = options;
  able.selection = selection_on(group.shape(), options.selection);
  std::shared_ptr<NodeMemory> memory;
  if (may_share_memory(able.selection)) {
    std::string why_not;
    memory = share_memory(group, PlanCommunicator::control_bytes(able), options.notice, why_not);
    if (!memory && is_shared_memory_demanded(able.selection)) {
      throw Error(ErrorCode::unsupported, "the ranks of a node cannot share memory (" + why_not +
                                              "); choose an algorithm that sends messages, such as ring")
          .on_every_rank();
    }
    if (!memory) go_by_messages(group, able.selection, why_not, options.notice);
  }
  auto communicator = std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{.backend = "mpi_plan",
                                 .rank = group.rank(),
                                 .shape = group.shape(),
                                 .host = group.host(),
                                 .control = make_control_channel(group, group.shape())},
      std::make_unique<MessageMedium>(group, PlanCommunicator::lanes(able)), std::move(memory), progress, able);
  communicator->enlist();
  return communicator;
}

}  // namespace lockstep::backends
