// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "backends/make_communicator.hpp"
#include "comm/back_end.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

class Done : public Operation {
 public:
  Done() { complete(); }
  bool order_after(Queue /*queue*/) override { return true; }
};

/// Records the calls that it receives.
class Notebook : public BackEnd {
 public:
  Notebook(std::vector<std::string>& notes, std::string who, Progress& progress)
      : BackEnd({0}, 2),
        notes_(notes),
        who_(std::move(who)),
        progress_(progress),
        capabilities_{.backend = "notebook", .host_memory = who_ == "host", .device_memory = who_ == "device"} {}

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  Allocation allocate(Bytes bytes) override {
    note("allocate");
    return allocate_host(bytes);
  }
  void abort(std::string_view why) noexcept override { note(std::string(why)); }
  void close() override { note("close"); }
  Work submit(const Collective& collective) override {
    note(std::string(name(collective.kind)));
    return {std::make_shared<Done>(), progress_};
  }

 private:
  void note(const std::string& text) { notes_.push_back(who_ + " " + text); }
  std::vector<std::string>& notes_;
  std::string who_;
  Progress& progress_;
  Capabilities capabilities_;
};

std::unique_ptr<Communicator> route(std::vector<std::string>& notes, Progress& progress) {
  const auto notebook = [&](const char* who) {
    return std::make_unique<Communicator>(std::make_unique<Notebook>(notes, who, progress));
  };
  return make_routed(notebook("host"), notebook("device"));
}

TEST(Routed, GoesByTheKindOfMemory) {
  std::vector<std::string> notes;
  Progress progress;
  const auto routed = route(notes, progress);
  std::array<float, 4> memory{};
  for (const MemoryKind kind : {MemoryKind::pinned, MemoryKind::device}) {
    const Buffer one{memory.data(), {1}, DType::float32, kind};
    const Buffer two{memory.data(), {2}, DType::float32, kind};
    const Buffer more{memory.data() + 2, {2}, DType::float32, kind};
    routed->all_reduce(one, one, ReduceOp::sum).wait();
    routed->broadcast(one, {0}).wait();
    routed->all_gather(one, two).wait();
    routed->reduce_scatter(two, one, ReduceOp::sum).wait();
    routed->reduce(one, {}, ReduceOp::sum, {1}).wait();
    routed->all_to_all(two, more).wait();
  }
  routed->barrier().wait();
  (void)routed->allocate({4});
  routed->abort("enough");
  routed->close();
  EXPECT_EQ(notes, (std::vector<std::string>{
                       "host all_reduce", "host broadcast", "host all_gather", "host reduce_scatter", "host reduce",
                       "host all_to_all", "device all_reduce", "device broadcast", "device all_gather",
                       "device reduce_scatter", "device reduce", "device all_to_all", "host barrier", "device allocate",
                       "host enough", "device enough", "device close", "host close"}));
}

TEST(Routed, RefusesTwoKindsInOneOperation) {
  std::vector<std::string> notes;
  Progress progress;
  const auto routed = route(notes, progress);
  std::array<float, 2> memory{};
  const Buffer host{memory.data(), {1}, DType::float32, MemoryKind::host};
  const Buffer device{memory.data() + 1, {1}, DType::float32, MemoryKind::device};
  EXPECT_THROW((void)routed->all_reduce(host, device, ReduceOp::sum), Error);
  EXPECT_TRUE(notes.empty());
}

TEST(Routed, SubmitsNothingOfAGroupWhoseHostPartIsToWaitForAStream) {
  std::vector<std::string> notes;
  Progress progress;
  const auto routed = route(notes, progress);
  std::array<float, 2> memory{};
  Collective of_device{.kind = CollectiveKind::all_reduce};
  of_device.in = of_device.out = Buffer{memory.data(), {1}, DType::float32, MemoryKind::device};
  of_device.queue = Queue::stream(memory.data());
  Collective of_host = of_device;
  of_host.in = of_host.out = Buffer{memory.data() + 1, {1}, DType::float32, MemoryKind::host};
  const std::array<Collective, 2> members{of_device, of_host};
  EXPECT_THROW((void)routed->group(members), Error);
  EXPECT_TRUE(notes.empty());
}

}  // namespace
}  // namespace lockstep::backends
