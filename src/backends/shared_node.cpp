// SPDX-License-Identifier: Apache-2.0
#include "backends/shared_node.hpp"

#include <optional>

#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/make_node_memory.hpp"

namespace lockstep::backends {

std::shared_ptr<NodeMemory> share_memory(const MpiGroup& group, Bytes control_bytes,
                                         const std::function<void(std::string_view)>& notice, std::string& why_not) {
  std::optional<MpiGroup> node =
      group.split(group.shape().node_of_rank[static_cast<std::size_t>(group.rank().value)], group.rank().value);
  auto memory = make_node_memory(*node, {.control_bytes = control_bytes, .notice = notice}, why_not);
  node->close();
  for (const std::string& reason : all_gather_strings(group, memory ? "" : why_not)) {
    if (reason.empty()) continue;
    why_not = reason;
    if (memory) memory->close();
    return nullptr;
  }
  return memory;
}

bool is_shared_memory_demanded(const collectives::Selection& selection) {
  return selection.forced && collectives::uses_shared_memory(selection.forced->algorithm);
}

void go_by_messages(const MpiGroup& group, collectives::Selection& selection, const std::string& why,
                    const std::function<void(std::string_view)>& notice) {
  selection.shared_memory = false;
  if (!notice || group.rank() != Rank{0}) return;
  notice("the ranks of a node cannot share memory (" + why + "): they send messages, which takes longer");
}

void settle_shared_memory(const MpiGroup& group, collectives::Selection& selection,
                          const std::function<void(std::string_view)>& notice) {
  if (is_shared_memory_demanded(selection) || !may_share_memory(selection)) return;
  std::string why_not;
  if (const auto memory = share_memory(group, Bytes{0}, notice, why_not)) return memory->close();
  go_by_messages(group, selection, why_not, notice);
}

}  // namespace lockstep::backends
