// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

Signature Custom::signature(std::span<const Shape> inputs) const {
  require(of != nullptr, "a custom operator is nothing; give it an object");
  return of->signature(inputs);
}

std::string Custom::text() const { return of == nullptr ? "nothing" : of->text(); }

}  // namespace lockstep::ops
