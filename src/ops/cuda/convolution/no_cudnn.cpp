// SPDX-License-Identifier: Apache-2.0
// Replaces the files cudnn*.cpp in builds without CUDA or without cuDNN's header.
#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {

std::string why_no_convolutions() { return "lockstep was built without cuDNN: " LOCKSTEP_CUDNN_MISSING; }

std::unique_ptr<Convolutions> make_convolutions(const std::function<void()>& /*select_gpu*/) {
  throw Error(ErrorCode::unsupported, why_no_convolutions());
}

std::unique_ptr<Convolutions> make_convolutions_for(const std::string& /*device_properties*/) {
  return make_convolutions({});
}

}  // namespace lockstep::ops::cuda
