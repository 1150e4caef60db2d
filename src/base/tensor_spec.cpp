// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/tensor_spec.hpp"

namespace lockstep {

std::vector<double> Normalization::table() const {
  constexpr int bytes = 256;
  std::vector<double> table;
  for (std::size_t channel = 0; channel < mean.size(); ++channel)
    for (int byte = 0; byte < bytes; ++byte)
      table.push_back((static_cast<double>(byte) / 255 - mean[channel]) / deviation[channel]);
  return table;
}

}  // namespace lockstep
