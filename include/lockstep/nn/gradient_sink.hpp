// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::nn {

/// Hears how far a backward pass has come, so that gradients can travel while it goes on.
/// Calls come from the thread that runs the backward pass and must not block for long.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// The gradient of this tensor (an index into `Model::parameters()`) is complete: the sum over this rank's samples.
  virtual void ready(int parameter) = 0;
  /// After every layer, with parameters or without: a chance to let communication progress.
  virtual void between_layers() = 0;
};

}  // namespace lockstep::nn
