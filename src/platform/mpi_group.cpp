// SPDX-License-Identifier: Apache-2.0
#include "lockstep/platform/mpi_group.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "platform/mpi.hpp"

namespace lockstep {

MpiGroup::MpiGroup(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {
  LOCKSTEP_MPI(MPI_Comm_rank(handle_->communicator, &rank_.value));
  LOCKSTEP_MPI(MPI_Comm_size(handle_->communicator, &size_));
}

MpiGroup::MpiGroup(MpiGroup&&) noexcept = default;

MpiGroup& MpiGroup::operator=(MpiGroup&& other) noexcept {
  if (this != &other) {
    MpiGroup old(std::move(*this));  // says that it leaks, where it does
    handle_ = std::move(other.handle_);
    rank_ = other.rank_;
    size_ = other.size_;
  }
  return *this;
}

MpiGroup::~MpiGroup() {
  if (handle_ != nullptr && std::uncaught_exceptions() == 0) {
    std::fprintf(stderr, "lockstep: an MpiGroup (rank %d of %d) was destroyed without close(); its handle leaks\n",
                 rank_.value, size_);
  }
}

MpiGroup MpiGroup::dup() const {
  auto copy = std::make_unique<Handle>();
  LOCKSTEP_MPI(MPI_Comm_dup(handle().communicator, &copy->communicator));
  return MpiGroup(std::move(copy));
}

std::optional<MpiGroup> MpiGroup::split(std::optional<int> color, int key) const {
  if (color && *color < 0) {
    throw Error(ErrorCode::invalid_argument, "the colour of a split must be at least 0, not " + std::to_string(*color) +
                                                 "; pass no colour to join no group");
  }
  auto part = std::make_unique<Handle>();
  LOCKSTEP_MPI(MPI_Comm_split(handle().communicator, color.value_or(MPI_UNDEFINED), key, &part->communicator));
  if (part->communicator == MPI_COMM_NULL) return std::nullopt;
  return MpiGroup(std::move(part));
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
