// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/make_control_channel.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/make_node_memory.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {
namespace {

/// Messages on a communicator of their own. Nobody waits for them to be sent: MPI keeps texts that are so short.
class MpiPost final : public ControlChannel::Post {
 public:
  explicit MpiPost(MpiGroup group) : group_(std::move(group)) {}

  void send(const std::vector<int>& ranks, const std::string& text) override {
    text_ = text;
    for (const int rank : ranks) {
      MPI_Request request = MPI_REQUEST_NULL;
      LOCKSTEP_MPI(
          MPI_Isend(text_.data(), static_cast<int>(text_.size()), MPI_CHAR, rank, 0, communicator(group_), &request));
      LOCKSTEP_MPI(MPI_Request_free(&request));
    }
  }

  std::optional<std::string> receive() override {
    int found = 0;
    MPI_Status status;
    LOCKSTEP_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 0, communicator(group_), &found, &status));
    if (found == 0) return std::nullopt;
    int length = 0;
    LOCKSTEP_MPI(MPI_Get_count(&status, MPI_CHAR, &length));
    std::string text(static_cast<std::size_t>(length), ' ');
    LOCKSTEP_MPI(
        MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, 0, communicator(group_), MPI_STATUS_IGNORE));
    return text;
  }

  void close() override { group_.close(); }

 private:
  MpiGroup group_;
  std::string text_;  // on its way
};

}  // namespace

std::shared_ptr<ControlChannel> make_control_channel(const MpiGroup& group, const ClusterShape& shape) {
  const int node = shape.node_of_rank[static_cast<std::size_t>(group.rank().value)];
  ControlChannel::Place place{group.rank(), group.size(), group.host(), shape.ranks_on(node)};
  std::optional<MpiGroup> node_group = group.split(node, group.rank().value);
  std::string why_not;
  const NodeMemoryOptions options{.control_bytes = ControlChannel::control_bytes};
  std::shared_ptr<NodeMemory> word = make_node_memory(*node_group, options, why_not);
  node_group->close();
  if (word == nullptr) {
    place.node = {place.rank.value};
    word = make_node_memory_of_threads(1, options).front();
  }
  const bool is_cut_off = place.node.size() < static_cast<std::size_t>(place.ranks);
  const auto cut_off = all_gather_numbers(group, is_cut_off ? 1 : 0);
  std::unique_ptr<ControlChannel::Post> post;
  if (std::find(cut_off.begin(), cut_off.end(), 1) != cut_off.end()) post = std::make_unique<MpiPost>(group.dup());
  return std::make_shared<ControlChannel>(std::move(place), std::move(word), std::move(post));
}

}  // namespace lockstep
