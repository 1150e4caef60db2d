// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/reference.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/onednn/primitives/primitive.hpp"
#include "ops/reference/loops.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {
namespace {

/// The formats of both factors of a product: `large` has the result's extents.
struct Factors {
  std::size_t large = 0;
  Format large_format;
  Format other;
  bool gate = false;  ///< whether the other factor has one row and one column, and the large one more

  [[nodiscard]] std::vector<Format> inputs() const {
    return large == 0 ? std::vector{large_format, other} : std::vector{other, large_format};
  }
};

/// Returns the formats of equal factors, or of a factor and its gate, which gets the layout of the large factor.
/// @param large  index of the factor that has the result's extents
Factors factors_of(Formats in, std::size_t large) {
  const Format& first = in[large];
  const Shape& other = in[1 - large].shape;
  if (other == first.shape) return {large, first, first};
  const Tag tag = channel_tag(first).value_or(Tag::nchw);
  return {large, to_format(describe(dims_of(first.shape), tag, first.dtype), first.shape),
          to_format(describe(dims_of(other), tag, first.dtype), other), true};
}

/// oneDNN multiplies. A gate's gradient is a sum over positions, for which batch norm's kernel is used if channels are
/// contiguous.
class MultiplyKernel final : public Kernel {
 public:
  MultiplyKernel(const ContextPtr& context, const Factors& factors)
      : Kernel({.inputs = factors.inputs(), .output = factors.large_format, .backward_reads_output = false}),
        large_(factors.large),
        gate_(factors.gate) {
    const Desc large = to_desc(factors.large_format);
    const Desc other = to_desc(factors.other);
    const auto desc = make_desc<dnnl::binary>(PrimitiveParameters{context->engine, attributes()},
                                              dnnl::algorithm::binary_mul, large, other, large);
    product_ = Primitive(context, desc, {{DNNL_ARG_SRC_0, large}, {DNNL_ARG_SRC_1, other}, {DNNL_ARG_DST, large}});
    if (!gate_) return;
    layout_ = channel_layout(factors.large_format);
    const auto channels = static_cast<std::size_t>(layout_.channels());
    zeros_.resize(channels);
    sums_.resize(channels);
    products_.resize(channels);
  }

  [[nodiscard]] std::string algorithm(Pass /*pass*/) const override { return product_.kernel(); }

  void forward(const Arguments& call) override { multiply(call.inputs[large_], call.inputs[1 - large_], call.output); }

  void backward(const Arguments& call) override {
    void* large = call.input_gradients[large_];
    void* other = call.input_gradients[1 - large_];
    if (large != nullptr) multiply(call.output_gradient, call.inputs[1 - large_], large);
    if (other == nullptr) return;
    if (gate_) {
      sum_gate(static_cast<const float*>(call.inputs[large_]), static_cast<const float*>(call.output_gradient),
               static_cast<float*>(other));
    } else {
      multiply(call.output_gradient, call.inputs[large_], other);
    }
  }

 private:
  void multiply(const void* large, const void* other, void* out) {
    product_.run({{DNNL_ARG_SRC_0, large}, {DNNL_ARG_SRC_1, other}, {DNNL_ARG_DST, out}});
  }

  /// Computes Σ dy·x of each channel, image by image. Padding channels, which are zero, are included.
  void sum_gate(const float* x, const float* dy, float* gradient) {
    if (layout_.lanes == 1) {
      for (std::int64_t plane = 0; plane < layout_.images * layout_.groups; ++plane) {
        const std::int64_t begin = plane * layout_.positions;
        gradient[plane] = static_cast<float>(reference::dot(x + begin, dy + begin, layout_.positions));
      }
      return;
    }
    const kernels::ChannelLayout image{1, layout_.groups, layout_.positions, layout_.lanes};
    const std::int64_t count = image.channels() * image.positions;
    for (std::int64_t n = 0; n < layout_.images; ++n) {
      kernels::sum_gradients(image, whole(image), zeros_.data(), x + n * count, {.dy = dy + n * count}, sums_.data(),
                             products_.data());
      std::transform(products_.begin(), products_.end(), gradient + n * image.channels(),
                     [](double product) { return static_cast<float>(product); });
    }
  }

  std::size_t large_;
  bool gate_;
  Primitive product_;
  kernels::ChannelLayout layout_{};
  std::vector<float> zeros_;
  std::vector<double> sums_;
  std::vector<double> products_;
};

}  // namespace

/// Other broadcasts are rare, and their gradients are sums without a fast kernel, so the reference's kernel is used.
KernelPtr make(const Multiply& product, const ContextPtr& context, Formats in) {
  const Shape out = product.signature(std::array{in[0].shape, in[1].shape}).output;
  for (const std::size_t large : {0U, 1U}) {
    const Shape gate{out.batch, out.channels, 1, 1};
    const Shape& other = in[1 - large].shape;
    if (in[large].shape != out || (other != out && other != gate)) continue;
    // The loops that sum a gate's gradient support float32 only.
    if (other == out || in[large].dtype == DType::float32)
      return std::make_unique<MultiplyKernel>(context, factors_of(in, large));
  }
  return make_reference_ops()->make(product, in);
}

}  // namespace lockstep::ops::onednn
