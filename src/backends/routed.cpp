// SPDX-License-Identifier: Apache-2.0
#include "backends/routed.hpp"

#include <utility>

namespace lockstep::backends {
namespace {

class Routed : public Communicator {
 public:
  Routed(std::unique_ptr<Communicator> on_host, std::unique_ptr<Communicator> on_device)
      : Communicator(on_host->rank(), on_host->size()),
        on_host_(std::move(on_host)),
        on_device_(std::move(on_device)),
        capabilities_{.backend = "routed",
                      .host_memory = true,
                      .device_memory = true,
                      .no_reduce_then = on_host_->capabilities().no_reduce_then} {}

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  Allocation allocate(Bytes bytes) override { return on_device_->allocate(bytes); }
  void abort(std::string_view why) noexcept override {
    on_host_->abort(why);
    on_device_->abort(why);
  }
  void close() override {
    on_device_->close();
    on_host_->close();
  }

 protected:
  Work submit(const Collective& collective) override { return route(collective).start(collective); }
  std::unique_ptr<Preparation> make_preparation(const Collective& collective) override {
    return preparation_of(route(collective).prepare(collective));
  }

 private:
  /// A reduce has an output on its root only, a broadcast no input.
  [[nodiscard]] Communicator& route(const Collective& collective) const {
    const bool device = collective.in.kind == MemoryKind::device || collective.out.kind == MemoryKind::device;
    return device ? *on_device_ : *on_host_;
  }

  std::unique_ptr<Communicator> on_host_;
  std::unique_ptr<Communicator> on_device_;
  Capabilities capabilities_;
};

}  // namespace

std::unique_ptr<Communicator> make_routed(std::unique_ptr<Communicator> on_host,
                                          std::unique_ptr<Communicator> on_device) {
  return std::make_unique<Routed>(std::move(on_host), std::move(on_device));
}

}  // namespace lockstep::backends
