// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/exchange.hpp"

#include <mpi.h>

#include <utility>
#include <vector>

#include "platform/mpi/mpi.hpp"

namespace lockstep {
namespace {

class MpiExchange : public Exchange {
 public:
  explicit MpiExchange(MpiGroup group) : group_(std::move(group)) {}

  void begin(std::span<const std::byte> own) override {
    own_.assign(own.begin(), own.end());
    all_.resize(own.size() * static_cast<std::size_t>(group_.size()));
    const auto bytes = static_cast<int>(own.size());
    LOCKSTEP_MPI(
        MPI_Iallgather(own_.data(), bytes, MPI_BYTE, all_.data(), bytes, MPI_BYTE, communicator(group_), &request_));
  }

  std::span<const std::byte> poll() override {
    int complete = 0;
    LOCKSTEP_MPI(MPI_Test(&request_, &complete, MPI_STATUS_IGNORE));
    return complete != 0 ? std::span<const std::byte>(all_) : std::span<const std::byte>();
  }

  void close() override { group_.close(); }

 private:
  MpiGroup group_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::vector<std::byte> own_;
  std::vector<std::byte> all_;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(const MpiGroup& group) { return std::make_unique<MpiExchange>(group.dup()); }

}  // namespace lockstep
