// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/device.hpp"

namespace lockstep::ops {

/// A GPU, by CUDA device index, with a queue of its own. The thread that calls has selected the GPU.
/// @throws Error{device}; Error{unsupported} in a build without CUDA
std::unique_ptr<ComputeDevice> make_cuda_device(int gpu, std::chrono::duration<double> deadline = usual_deadline);

}  // namespace lockstep::ops
