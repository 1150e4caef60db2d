// SPDX-License-Identifier: Apache-2.0
#include "lockstep/platform/mpi/mpi_group.hpp"

#include <array>
#include <numeric>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "base/origin_process.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/phase.hpp"
#include "platform/mpi/ulfm.hpp"
#include "platform/mpi/wait_monitor.hpp"

namespace lockstep {
namespace {

std::shared_ptr<const MpiGroup::Members> chosen(const MpiGroup::Members& all, const std::vector<int>& ranks) {
  auto some = std::make_shared<MpiGroup::Members>();
  std::vector<int> nodes;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    some->hosts.push_back(all.hosts[index]);
    nodes.push_back(all.shape.node_of_rank[index]);
  }
  some->shape = number_nodes(nodes);
  return some;
}

std::vector<int> some_of(const std::vector<int>& all, const std::vector<int>& at) {
  std::vector<int> some;
  some.reserve(at.size());
  for (const int index : at) some.push_back(all[static_cast<std::size_t>(index)]);
  return some;
}

/// Makes the handle of a group that is derived from the group of this handle. All ranks make groups in the same order.
std::unique_ptr<MpiGroup::Handle> descendant_of(const MpiGroup::Handle& handle) {
  Fnv1a number;
  number.add(static_cast<std::int64_t>(handle.number));
  number.add(++handle.descendants);
  return std::make_unique<MpiGroup::Handle>(MpiGroup::Handle{.node_files = handle.node_files,
                                                             .monitor = handle.monitor,
                                                             .original_ranks = handle.original_ranks,
                                                             .number = number.value(),
                                                             .deadline = handle.deadline});
}

/// Waits, within the deadline, until all ranks arrive at a blocking call of MPI. A group without a deadline waits in
/// the call itself.
void await_all(const MpiGroup& group) {
  if (group.handle().monitor != nullptr) barrier(group);
}

}  // namespace

bool mpi_has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> text{};
  int length = 0;
  LOCKSTEP_MPI(MPI_Get_processor_name(text.data(), &length));
  return echo({text.data(), static_cast<std::size_t>(length)}, text.size());
}

void throw_mpi_error(int code, std::string_view call, ErrorContext context, SourceLocation location) {
  std::string message = mpi_error_text(code) + " in " + std::string(call);
  if (is_revoked(code))
    throw Error(ErrorCode::transport, std::move(message), std::move(context), location).as_consequence();
  if (is_of_death(code)) {
    const std::vector<int> dead = dead_ranks(MPI_COMM_WORLD);
    if (!dead.empty())
      message = rank_names(dead, [](int) { return std::string(); }) + " of the job " +
                (dead.size() == 1 ? "has" : "have") + " ended: " + message;
    if (context.peers.empty()) context.peers = dead;
  }
  throw Error(ErrorCode::transport, std::move(message), std::move(context), location);
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  LOCKSTEP_MPI(MPI_Get_library_version(text.data(), &length));
  // Libraries append their build and its configuration, after a comma or on further lines.
  const std::string_view all = text.data();
  std::string version(all.substr(0, all.find_first_of(",\n")));
  constexpr std::string_view of_mpich = " Version:\t";
  if (const std::size_t at = version.find(of_mpich); at != std::string::npos) version.replace(at, of_mpich.size(), " ");
  return version;
}

std::vector<int> ranks_in(MPI_Comm whole, MPI_Comm part) {
  MPI_Group some = MPI_GROUP_NULL;
  LOCKSTEP_MPI(MPI_Comm_group(part, &some));
  return ranks_of_group_in(whole, some);
}

std::vector<int> ranks_of_group_in(MPI_Comm whole, MPI_Group part) {
  MPI_Group all = MPI_GROUP_NULL;
  LOCKSTEP_MPI(MPI_Comm_group(whole, &all));
  int size = 0;
  LOCKSTEP_MPI(MPI_Group_size(part, &size));
  std::vector<int> here(static_cast<std::size_t>(size));
  std::iota(here.begin(), here.end(), 0);
  std::vector<int> there(here.size());
  LOCKSTEP_MPI(MPI_Group_translate_ranks(part, size, here.data(), all, there.data()));
  LOCKSTEP_MPI(MPI_Group_free(&part));
  LOCKSTEP_MPI(MPI_Group_free(&all));
  return there;
}

MpiGroup::MpiGroup(std::unique_ptr<Handle> handle, std::shared_ptr<const Members> members)
    : handle_(std::move(handle)), members_(std::move(members)) {
  LOCKSTEP_MPI(MPI_Comm_rank(handle_->communicator, &rank_.value));
  LOCKSTEP_MPI(MPI_Comm_size(handle_->communicator, &size_));
  if (handle_->monitor != nullptr) handle_->monitor->add(handle_->communicator);
}

MpiGroup::MpiGroup(MpiGroup&&) noexcept = default;

MpiGroup& MpiGroup::operator=(MpiGroup&& other) noexcept {
  const MpiGroup before(std::move(*this));
  handle_ = std::move(other.handle_);
  members_ = std::move(other.members_);
  rank_ = other.rank_;
  size_ = other.size_;
  return *this;
}

MpiGroup::~MpiGroup() {
  if (handle_ != nullptr && !handle_->origin.is_here()) keep_in_child(std::move(handle_));
}

const std::vector<std::string>& MpiGroup::hosts() const { return members_->hosts; }

const ClusterShape& MpiGroup::shape() const { return members_->shape; }

void MpiGroup::set_deadline(std::chrono::duration<double> deadline) {
  static_cast<void>(handle());  // refuses a closed group
  require_deadline(deadline);
  handle_->deadline = deadline;
}

// MPI's calls that make communicators block. All ranks enter them together, so only a rank that stops within the few
// microseconds of such a call keeps the others waiting; the watchdog reports this.

MpiGroup MpiGroup::dup() const {
  auto copy = descendant_of(handle());
  await_all(*this);
  const BlockingCall call(*this, "MPI_Comm_dup");
  LOCKSTEP_MPI(MPI_Comm_dup(handle().communicator, &copy->communicator));
  return {std::move(copy), members_};
}

std::optional<MpiGroup> MpiGroup::split(std::optional<int> color, int key) const {
  if (color && *color < 0) {
    throw Error(ErrorCode::invalid_argument, "the color of a split must be at least 0, not " + std::to_string(*color) +
                                                 "; pass no color to join no group");
  }
  auto part = descendant_of(handle());
  await_all(*this);
  const BlockingCall call(*this, "MPI_Comm_split");
  LOCKSTEP_MPI(MPI_Comm_split(handle().communicator, color.value_or(MPI_UNDEFINED), key, &part->communicator));
  if (part->communicator == MPI_COMM_NULL) return std::nullopt;
  const std::vector<int> ranks = ranks_in(handle().communicator, part->communicator);
  if (part->monitor != nullptr) part->original_ranks = some_of(handle().original_ranks, ranks);
  auto members = chosen(*members_, ranks);
  return MpiGroup(std::move(part), std::move(members));
}

/// A communicator whose ranks are no longer in step is not freed, because calls may still be under way in it.
void MpiGroup::close() {
  if (handle_ == nullptr) return;
  (void)this->handle();  // refuses a child of fork()
  const std::unique_ptr<Handle> handle = std::move(handle_);
  if (handle->failure) return;
  if (handle->monitor != nullptr) handle->monitor->remove(handle->communicator);
  LOCKSTEP_MPI(MPI_Comm_free(&handle->communicator));
  if (handle->monitor.use_count() == 1) handle->monitor->close();
}

const MpiGroup::Handle& MpiGroup::handle() const {
  if (handle_ == nullptr) throw Error(ErrorCode::invalid_argument, "the MPI group is closed");
  if (!handle_->origin.is_here()) handle_->origin.require_here("the group", {.rank = rank_.value, .host = host()});
  return *handle_;
}

}  // namespace lockstep
