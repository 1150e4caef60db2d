// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/grid.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/kernel/accesses.hpp"
#include "emulated_gpu/kernel/multiprocessor.hpp"

namespace emulated_gpu {
namespace {

class Grid : public Task {
 public:
  explicit Grid(KernelCall call) : call_(std::move(call)) {}

  Step step(Random& random) override {
    const Memory::Open open;
    begin_accesses();
    if (!has_begun_) {
      has_begun_ = true;
      left_.resize(std::size_t{call_.grid.x} * call_.grid.y * call_.grid.z);
      std::iota(left_.begin(), left_.end(), std::uint64_t{0});
    }
    for (std::uint64_t blocks = 1 + random.below(left_.size()); blocks > 0; --blocks) {
      std::swap(left_[random.below(left_.size())], left_.back());
      Multiprocessor::instance().run(call_, index_of(left_.back()), random);
      left_.pop_back();
    }
    return left_.empty() ? Step::done : Step::moved;
  }
  [[nodiscard]] std::string what() const override { return "kernel " + call_.kernel; }
  [[nodiscard]] bool is_kernel() const override { return true; }

 private:
  [[nodiscard]] uint3 index_of(std::uint64_t block) const {
    const dim3& grid = call_.grid;
    return {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
            static_cast<unsigned>(block / grid.x / grid.y)};
  }

  KernelCall call_;
  std::vector<std::uint64_t> left_;  // blocks that have not run
  bool has_begun_ = false;
};

}  // namespace

std::unique_ptr<Task> run_grid(KernelCall call) { return std::make_unique<Grid>(std::move(call)); }

}  // namespace emulated_gpu
