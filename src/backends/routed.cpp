// SPDX-License-Identifier: Apache-2.0
#include "backends/make_communicator.hpp"
#include "comm/back_end.hpp"

namespace lockstep::backends {
namespace {

class Routed : public BackEnd {
 public:
  Routed(std::unique_ptr<Communicator> on_host, std::unique_ptr<Communicator> on_device)
      : BackEnd(on_host->rank(), on_host->size()),
        on_host_(std::move(on_host)),
        on_device_(std::move(on_device)),
        capabilities_{.backend = "routed",
                      .host_memory = true,
                      .device_memory = true,
                      .no_average = on_host_->capabilities().no_average,
                      .no_leaves = on_host_->capabilities().no_leaves,
                      .messages_take_turns = on_device_->capabilities().messages_take_turns} {}

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] std::string_view why_no_leaves(MemoryKind where) const override {
    return (where == MemoryKind::device ? *on_device_ : *on_host_).capabilities().no_leaves;
  }
  Allocation allocate(Bytes bytes) override { return on_device_->allocate(bytes); }
  std::shared_ptr<const void> register_memory(const Buffer& memory) override {
    return memory.kind == MemoryKind::device ? back_end_of(*on_device_).register_memory(memory) : nullptr;
  }
  void abort(std::string_view why) noexcept override {
    on_host_->abort(why);
    on_device_->abort(why);
  }
  void close() override {
    on_device_->close();
    on_host_->close();
  }
  Work submit(const Collective& collective) override { return route(collective).start(collective); }
  /// Submits the members of each kind of memory as one group, and returns the results in the order of the members. The
  /// host's group comes first, because it refuses to wait for a stream, and the device's members are checked before it:
  /// nothing may have been sent when a member is refused.
  std::vector<Work> submit_group(std::span<const Collective> members) override {
    std::vector<Collective> of_each[2];
    for (const Collective& member : members) of_each[is_on_device(member) ? 1 : 0].push_back(member);
    for (Collective& member : of_each[1]) check(back_end_of(*on_device_), member);
    std::vector<Work> works[] = {on_host_->group(of_each[0]), on_device_->group(of_each[1])};
    std::size_t next[2] = {};
    std::vector<Work> all;
    for (const Collective& member : members) {
      const int where = is_on_device(member) ? 1 : 0;
      all.push_back(std::move(works[where][next[where]++]));
    }
    return all;
  }
  std::unique_ptr<Preparation> make_preparation(const Collective& collective) override {
    return preparation_of(route(collective).prepare(collective));
  }

 private:
  /// Checks both buffers, because a reduce has an output at its root only, and a scatter an input.
  static bool is_on_device(const Collective& collective) {
    return collective.in.kind == MemoryKind::device || collective.out.kind == MemoryKind::device;
  }
  [[nodiscard]] Communicator& route(const Collective& collective) const {
    return is_on_device(collective) ? *on_device_ : *on_host_;
  }

  std::unique_ptr<Communicator> on_host_;
  std::unique_ptr<Communicator> on_device_;
  Capabilities capabilities_;
};

}  // namespace

std::unique_ptr<Communicator> make_routed(std::unique_ptr<Communicator> on_host,
                                          std::unique_ptr<Communicator> on_device) {
  return std::make_unique<Communicator>(std::make_unique<Routed>(std::move(on_host), std::move(on_device)));
}

}  // namespace lockstep::backends
