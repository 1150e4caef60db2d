// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"

namespace lockstep::ops {

namespace {

Signature pooled(std::span<const Shape> inputs, const Windows& windows) {
  require_inputs(inputs, 1, "a pool");
  const Shape out = windows_of(inputs[0], inputs[0].channels, windows);
  const Cost cost{out.count() * windows.kernel * windows.kernel, inputs[0].count() + out.count()};
  return {.output = out, .forward = cost, .backward = cost};
}

}  // namespace

Signature MaxPool::signature(std::span<const Shape> inputs) const { return pooled(inputs, {kernel, stride}); }
std::string MaxPool::text() const { return "max pool " + ops::text(Windows{kernel, stride}); }

Signature AveragePool::signature(std::span<const Shape> inputs) const { return pooled(inputs, {kernel, stride}); }
std::string AveragePool::text() const { return "average pool " + ops::text(Windows{kernel, stride}); }

}  // namespace lockstep::ops
