// SPDX-License-Identifier: Apache-2.0
#include "lockstep/platform/mpi/mpi_group.hpp"

#include <numeric>
#include <string>
#include <utility>

#include "lockstep/base/cluster_shape.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep {
namespace {

/// The numbers that the ranks of `part` have in `whole`. Does not communicate.
std::vector<int> ranks_in(MPI_Comm whole, MPI_Comm part) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  LOCKSTEP_MPI(MPI_Comm_group(whole, &all));
  LOCKSTEP_MPI(MPI_Comm_group(part, &some));
  int size = 0;
  LOCKSTEP_MPI(MPI_Group_size(some, &size));
  std::vector<int> here(static_cast<std::size_t>(size));
  std::iota(here.begin(), here.end(), 0);
  std::vector<int> there(here.size());
  LOCKSTEP_MPI(MPI_Group_translate_ranks(some, size, here.data(), all, there.data()));
  LOCKSTEP_MPI(MPI_Group_free(&some));
  LOCKSTEP_MPI(MPI_Group_free(&all));
  return there;
}

std::shared_ptr<const MpiGroup::Members> chosen(const MpiGroup::Members& all, const std::vector<int>& ranks) {
  auto some = std::make_shared<MpiGroup::Members>();
  std::vector<int> nodes;
  for (const int rank : ranks) {
    some->hosts.push_back(all.hosts[static_cast<std::size_t>(rank)]);
    nodes.push_back(all.shape.node_of_rank[static_cast<std::size_t>(rank)]);
  }
  some->shape = number_nodes(nodes);
  return some;
}

}  // namespace

MpiGroup::MpiGroup(std::unique_ptr<Handle> handle, std::shared_ptr<const Members> members)
    : handle_(std::move(handle)), members_(std::move(members)) {
  LOCKSTEP_MPI(MPI_Comm_rank(handle_->communicator, &rank_.value));
  LOCKSTEP_MPI(MPI_Comm_size(handle_->communicator, &size_));
}

MpiGroup::MpiGroup(MpiGroup&&) noexcept = default;

MpiGroup& MpiGroup::operator=(MpiGroup&& other) noexcept = default;

MpiGroup::~MpiGroup() = default;

const std::vector<std::string>& MpiGroup::hosts() const { return members_->hosts; }

const ClusterShape& MpiGroup::shape() const { return members_->shape; }

MpiGroup MpiGroup::dup() const {
  auto copy = std::make_unique<Handle>(Handle{.node_files = handle().node_files});
  LOCKSTEP_MPI(MPI_Comm_dup(handle().communicator, &copy->communicator));
  return {std::move(copy), members_};
}

std::optional<MpiGroup> MpiGroup::split(std::optional<int> color, int key) const {
  if (color && *color < 0) {
    throw Error(ErrorCode::invalid_argument, "the color of a split must be at least 0, not " + std::to_string(*color) +
                                                 "; pass no color to join no group");
  }
  auto part = std::make_unique<Handle>(Handle{.node_files = handle().node_files});
  LOCKSTEP_MPI(MPI_Comm_split(handle().communicator, color.value_or(MPI_UNDEFINED), key, &part->communicator));
  if (part->communicator == MPI_COMM_NULL) return std::nullopt;
  auto members = chosen(*members_, ranks_in(handle().communicator, part->communicator));
  return MpiGroup(std::move(part), std::move(members));
}

void MpiGroup::close() {
  if (handle_ == nullptr) return;
  LOCKSTEP_MPI(MPI_Comm_free(&handle_->communicator));
  handle_.reset();
}

const MpiGroup::Handle& MpiGroup::handle() const {
  if (handle_ == nullptr) throw Error(ErrorCode::invalid_argument, "the MPI group is closed");
  return *handle_;
}

}  // namespace lockstep
