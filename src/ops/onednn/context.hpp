// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <functional>
#include <memory>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ops/kernel_choices.hpp"
namespace lockstep::ops::onednn {

/// Memory for the duration of one call. All operators of one Ops share it, because they run one after another.
/// Operators reserve at construction; a larger reservation may move it, so its address is queried at each call.
class Workspace {
 public:
  void reserve(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.data()); }

 private:
  Allocation memory_;
};

/// The state that all operators of one Ops share.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  bool exact = false;     ///< whether algorithms that trade accuracy for speed are excluded
  KernelChoices choices;  ///< the choices for kernels
  Workspace scratchpad;   ///< scratchpad of the primitive that runs
  Workspace reordered;    ///< one tensor in the layout of the running primitive
};

using ContextPtr = std::shared_ptr<Context>;

/// Calls `body(member, members)` on each thread of the team on which oneDNN's primitives run, and waits for all. It
/// does not throw.
void on_team(const std::function<void(int member, int members)>& body);

}  // namespace lockstep::ops::onednn
