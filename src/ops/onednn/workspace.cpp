// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/workspace.hpp"

namespace lockstep::ops::onednn {

void Workspace::reserve(std::size_t bytes) {
  const auto wanted = static_cast<std::int64_t>(bytes);
  if (wanted > memory_.bytes().value) memory_ = allocate_host({wanted});
}

}  // namespace lockstep::ops::onednn
