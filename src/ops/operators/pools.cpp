// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes.hpp"
namespace lockstep::ops {
namespace {

/// As in PyTorch, every window must have an element that is not padding.
void check_padding_of_pool(const Windows& windows) {
  const auto& [kernel, stride, padding, dilation] = windows;
  require(2 * padding.height <= kernel.height && 2 * padding.width <= kernel.width,
          "padding is " + text(padding) + "; it must be at most half of the kernel, which is " + text(kernel));
}

Signature pooled(std::span<const Shape> inputs, const Windows& windows, Activation activation = Activation::none) {
  require_inputs(inputs, 1, "a pool");
  require_common(activation);
  check(windows);
  check_padding_of_pool(windows);
  const Shape out = windows_of(inputs[0], inputs[0].channels, windows);
  const OperatorCost cost{out.count() * windows.kernel.area(), inputs[0].count() + out.count()};
  return {.output = out,
          .forward = with_activation(cost, activation, out.count(), false),
          .backward = with_activation(cost, activation, out.count(), true)};
}

std::string text_of_pool(const char* name, const Windows& windows) {
  return name + text(windows) + (windows.padding == 0 ? "" : ", padding " + text(windows.padding));
}

/// Returns the sum of the sizes of all adaptive windows along one axis.
std::int64_t adaptive_elements(std::int64_t windows, std::int64_t extent) {
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < windows; ++i) {
    const Stretch window = adaptive_window(i, windows, extent);
    elements += window.end - window.begin;
  }
  return elements;
}

}  // namespace

Signature MaxPool::signature(std::span<const Shape> inputs) const {
  return pooled(inputs, {kernel, stride, padding}, activation);
}
std::string MaxPool::text() const {
  return text_of_pool("max pool ", {kernel, stride, padding}) + ops::text(activation);
}

Signature AveragePool::signature(std::span<const Shape> inputs) const {
  return pooled(inputs, {kernel, stride, padding});
}
std::string AveragePool::text() const { return text_of_pool("average pool ", {kernel, stride, padding}); }

Signature GlobalAveragePool::signature(std::span<const Shape> inputs) const {
  return AdaptiveAveragePool{1, 1}.signature(inputs);
}
std::string GlobalAveragePool::text() const { return "global average pool"; }

Signature AdaptiveAveragePool::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "an adaptive pool");
  require_at_least(height, 1, "height");
  require_at_least(width, 1, "width");
  const Shape& in = inputs[0];
  const Shape out{in.batch, in.channels, height, width};
  const std::int64_t read = adaptive_elements(height, in.height) * adaptive_elements(width, in.width);
  const OperatorCost cost{in.batch * in.channels * read, in.count() + out.count()};
  return {.output = out, .forward = cost, .backward = cost};
}

std::string AdaptiveAveragePool::text() const {
  return "adaptive average pool to " + std::to_string(height) + "×" + std::to_string(width);
}

Signature ChannelPool::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a channel pool");
  const Shape& in = inputs[0];
  const Shape out{in.batch, 1, in.height, in.width};
  const OperatorCost cost{in.count(), in.count() + out.count()};
  return {.output = out, .forward = cost, .backward = cost};
}

std::string ChannelPool::text() const { return kind == Kind::mean ? "mean of channels" : "maximum of channels"; }

Signature Resize::signature(std::span<const Shape> inputs) const {
  require_inputs(inputs, 1, "a resize");
  Shape out = inputs[0];
  if (scale != 0) {
    require_at_least(scale, 1, "scale");
    require(height == 0 && width == 0, "a resize has a scale, " + std::to_string(scale) + ", and a size, " +
                                           std::to_string(height) + "x" + std::to_string(width) + "; give one of them");
    out.height *= scale;
    out.width *= scale;
  } else {
    require_at_least(height, 1, "height");
    require_at_least(width, 1, "width");
    out.height = height;
    out.width = width;
  }
  require(!align_corners || mode == Interpolation::bilinear, "align_corners is for mode bilinear only");
  // Each element costs three sums of two weighted values.
  const std::int64_t flops = mode == Interpolation::bilinear ? 9 * out.count() : 0;
  const std::int64_t moved = inputs[0].count() + out.count();
  return {.output = out,
          .forward = {flops, moved},
          .backward = {mode == Interpolation::bilinear ? flops : out.count(), moved}};
}

std::string Resize::text() const {
  const std::string to = scale != 0 ? std::to_string(scale) + " times the size"
                                    : "to " + std::to_string(height) + "×" + std::to_string(width);
  return "resize " + to + (mode == Interpolation::nearest ? ", nearest" : ", bilinear") +
         (align_corners ? ", corners aligned" : "");
}

}  // namespace lockstep::ops
