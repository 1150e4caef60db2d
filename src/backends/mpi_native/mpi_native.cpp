// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_native/mpi_native.hpp"

#include "backends/mpi_native/message_medium.hpp"
#include "backends/mpi_native/native_operation.hpp"
#include "backends/plan/message_operation.hpp"
#include "comm/host_communicator.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/ranks/make_node_memory.hpp"

namespace lockstep::backends {
namespace {

class MpiNative : public HostCommunicator {
 public:
  MpiNative(RankSet group, std::shared_ptr<ControlChannel> control, Progress& progress, const MpiNativeOptions& options)
      : HostCommunicator(group.rank(), group.size(), progress,
                         {.capabilities = {.backend = "mpi_native",
                                           .no_leaves = "the order in which the MPI library adds is its own"},
                          .hostname = group.host(),
                          // MPI matches collectives by their order, which would differ between ranks if several
                          // operations were compared at a time.
                          .operations_in_flight = options.check ? 1 : 4,
                          .deadline = options.deadline,
                          .observer = options.observer,
                          .control = std::move(control)}),
        group_(std::move(group)),
        limit_(options.message_limit),
        medium_(std::make_shared<MessageMedium>(group_, 0)),
        messages_(*medium_, group_.size(), options.message_limit),
        check_(options.check ? group_.link().make_exchange(group_) : nullptr) {}

  ~MpiNative() override {
    if (depart()) return;
    park(std::shared_ptr<Exchange>(std::move(check_)));
    park(medium_);
  }

 protected:
  std::shared_ptr<HostOperation> make_operation(CollectiveKind kind) override {
    if (is_message(kind)) return std::make_shared<MessageOperation>(messages_);
    return std::make_shared<NativeOperation>(communicator(group_), rank(), size(), limit_, operators_, check_.get());
  }
  void prepare(HostOperation& operation, const Collective& collective) override {
    if (is_message(collective.kind)) return static_cast<MessageOperation&>(operation).prepare(collective);
    static_cast<NativeOperation&>(operation).prepare(collective);
  }
  void release() override {
    operators_.close();
    if (check_) check_->close();
    medium_->close();
    group_.close();
  }

 private:
  RankSet group_;
  Bytes limit_;
  std::shared_ptr<MessageMedium> medium_;  // for sends and recvs
  Messages messages_;
  std::unique_ptr<Exchange> check_;  // null: operations are not compared
  MpiOperators operators_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_native(const RankSet& group, Progress& progress,
                                              const MpiNativeOptions& options) {
  if (options.message_limit < Bytes{8}) {
    throw Error(ErrorCode::invalid_argument, "the message limit must be at least one element, 8 bytes; it is " +
                                                 std::to_string(options.message_limit.value));
  }
  auto control = make_control_channel(group, group.shape());
  auto communicator = std::make_unique<MpiNative>(group.dup(), std::move(control), progress, options);
  communicator->enlist();
  return std::make_unique<Communicator>(std::move(communicator));
}

}  // namespace lockstep::backends
