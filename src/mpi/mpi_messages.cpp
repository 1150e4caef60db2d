// SPDX-License-Identifier: Apache-2.0
#include "mpi/mpi_messages.hpp"

#include "backends/make_communicator.hpp"
#include "backends/mpi_native/message_medium.hpp"
#include "backends/mpi_native/mpi_native.hpp"

namespace lockstep {
namespace {

class MpiMessages final : public backends::MessageLibrary {
 public:
  [[nodiscard]] std::unique_ptr<backends::Medium> make_medium(const RankSet& set, int channels) const override {
    return std::make_unique<backends::MessageMedium>(set, channels);
  }
  [[nodiscard]] std::unique_ptr<Communicator> make_communicator(
      const RankSet& set, Progress& progress, const backends::CommunicatorOptions& options) const override {
    return backends::make_mpi_native(set, progress,
                                     {.message_limit = options.plan.message_limit,
                                      .check = options.check,
                                      .deadline = options.plan.deadline,
                                      .observer = options.plan.observer});
  }
};

}  // namespace

const backends::MessageLibrary& mpi_messages() {
  static const MpiMessages messages;
  return messages;
}

}  // namespace lockstep
