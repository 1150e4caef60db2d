// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {

/// Makes cuDNN's plans for a GPU that this machine need not have; they cannot run.
/// @param device_properties  JSON of a CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
/// @throws Error{unsupported} if cuDNN is missing; Error{invalid_argument} if it refuses the properties
std::unique_ptr<Convolutions> make_convolutions_for(const std::string& device_properties);

}  // namespace lockstep::ops::cuda
