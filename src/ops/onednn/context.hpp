// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>
#include <memory>

#include "ops/choices.hpp"
#include "ops/onednn/workspace.hpp"

namespace lockstep::ops::onednn {

/// What all operators of one Ops share.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  bool exact = false;    ///< no algorithm that trades accuracy for speed
  Choices choices;       ///< what kernels are made by
  Workspace scratchpad;  ///< of the primitive that runs
  Workspace reordered;   ///< one tensor in the layout that the running primitive wants
};

using ContextPtr = std::shared_ptr<Context>;

}  // namespace lockstep::ops::onednn
