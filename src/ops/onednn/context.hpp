// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>
#include <memory>

#include "lockstep/ops/kernel_choices.hpp"
#include "ops/onednn/workspace.hpp"

namespace lockstep::ops::onednn {

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

}  // namespace lockstep::ops::onednn
