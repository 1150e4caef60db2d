// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <functional>
#include <memory>

#include "lockstep/ops/kernel_choices.hpp"
#include "ops/scratch.hpp"

namespace lockstep::ops::onednn {

/// The state that all operators of one Ops share.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  bool exact = false;     ///< whether algorithms that trade accuracy for speed are excluded
  KernelChoices choices;  ///< the choices for kernels
  Scratch scratchpad;     ///< scratchpad of the primitive that runs
  Scratch reordered;      ///< one tensor in the layout of the running primitive
};

using ContextPtr = std::shared_ptr<Context>;

/// Calls `body(member, members)` on each thread of the team on which oneDNN's primitives run, and waits for all. It
/// does not throw.
void on_team(const std::function<void(int member, int members)>& body);

}  // namespace lockstep::ops::onednn
