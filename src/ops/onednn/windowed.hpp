// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/onednn/weighted.hpp"

namespace lockstep::ops::onednn {

/// The oneDNN algorithm that is requested for each pass.
struct Algorithms {
  dnnl::algorithm forward = dnnl::algorithm::undef;
  dnnl::algorithm backward_data = dnnl::algorithm::undef;
  dnnl::algorithm backward_weights = dnnl::algorithm::undef;
};

/// The options that a convolution and a transposed convolution share.
struct WindowedOptions {
  Shape out;
  Algorithms algorithms = {};
  std::string_view passed_over = {};  ///< see `PrimitiveParameters`
  Dims stride = {};
  Dims dilation = {};  ///< 0: none
  Dims padding = {};
  Dims end_padding = {};
  Dims weights = {};              ///< in oneDNN's order, with groups in front if there are several
  Tag plain_weights = Tag::oihw;  ///< the layout of lockstep's weights
  bool bias = true;
  bool relu = false;
  bool bias_apart = false;  ///< whether bias and ReLU follow as a primitive of their own if it is a fast one
};

/// Returns the expected slowness of a kernel, as a power of ten relative to the best. oneDNN's "ref" takes a hundred to
/// a thousand times as long as others. Its matrix product of plain values takes five to forty times as long for groups,
/// which it computes one after the other, and otherwise two to ten times as long.
inline constexpr int slowness_of_reference = 10;
inline int slowness_of(std::string_view kernel) {
  if (kernel.starts_with("ref")) return slowness_of_reference;
  const bool product = kernel.starts_with("gemm:") || kernel.find(":gemm:") != std::string_view::npos;
  return product ? 1 : 0;
}

/// A kernel that multiplies windows by weights: oneDNN's convolution or deconvolution.
///
/// It keeps the format of its input if oneDNN has kernels for it. Otherwise it uses the format that oneDNN prefers, and
/// if there are no kernels for that either, the plain one. (For groups that do not fill vectors, and for blocks with
/// padding, oneDNN has reference kernels only. For depthwise convolutions whose windows are larger than the image, see
/// depthwise.cpp.)
template <typename Forward, typename BackwardData, typename BackwardWeights>
class WindowedKernel final : public WeightedKernel {
 public:
  WindowedKernel(const ContextPtr& context, const Format& in, WindowedOptions options)
      : WeightedKernel(options.bias, options.relu), context_(context), options_(std::move(options)) {
    const Descs descs = choose(in);
    const Desc src = descs.forward.src_desc();
    set({.inputs = {src == to_desc(in) ? in : to_format(src, in.shape)},
         .output = to_format(descs.forward.dst_desc(), options_.out),
         .backward_reads_output = options_.relu});
    make_primitives(context, describe(options_.weights, options_.plain_weights), descs.forward, descs.backward_data,
                    descs.backward_weights);
    set_add_bias(descs.add_bias);
  }

 private:
  struct Descs {
    typename Forward::primitive_desc forward;
    typename BackwardData::primitive_desc backward_data;
    typename BackwardWeights::primitive_desc backward_weights;
    AddBias add_bias;  ///< none if the forward primitive adds the bias
  };

  /// Returns the pairs of input and output formats to try, the best first.
  [[nodiscard]] std::vector<std::pair<Desc, Desc>> candidates(const Format& in) const {
    const auto both = [&](Tag tag) {
      return std::pair{describe(dims_of(in.shape), tag, in.dtype), describe(dims_of(options_.out), tag, in.dtype)};
    };
    const std::pair any = both(Tag::any);
    std::vector<std::pair<Desc, Desc>> all{{to_desc(in), any.second}, any, both(Tag::nchw)};
    if (has_groups()) all.push_back(both(Tag::nhwc));
    if (in.dtype == DType::bfloat16 && bfloat16_wants_channels_last()) all.insert(all.begin(), both(Tag::nhwc));
    return all;
  }

  [[nodiscard]] bool has_groups() const { return options_.weights.size() == 5; }

  [[nodiscard]] Descs choose(const Format& in) const {
    std::optional<Descs> best;
    int least = 0;
    for (const auto& [src, dst] : candidates(in)) {
      std::optional<Descs> descs = try_descs(src, dst);
      if (!descs) continue;
      const int slowness = slowness_of(*descs, in);
      if (!best || slowness < least) {
        best = std::move(descs);
        least = slowness;
      }
      if (least == 0) break;
    }
    if (!best) throw dnnl::error(dnnl_unimplemented, "there is no kernel in any format");
    // float32 kernels take a hundredth of the time.
    if (in.dtype != DType::float32 && least >= slowness_of_reference)
      throw dnnl::error(dnnl_unimplemented, "there is only a reference kernel");
    return *best;
  }

  [[nodiscard]] int slowness_of(const Descs& descs, const Format& in) const {
    // The gradient of images is not needed.
    constexpr std::int64_t channels_of_images = 4;
    const bool image = in.native == nullptr && in.shape.channels <= channels_of_images;
    const auto slowness = [](const auto& desc) { return onednn::slowness_of(desc.impl_info_str()); };
    return slowness(descs.forward) + slowness(descs.backward_weights) + (image ? 0 : slowness(descs.backward_data));
  }

  /// Returns nothing if oneDNN has no kernel.
  [[nodiscard]] std::optional<Descs> try_descs(const Desc& src, const Desc& dst) const {
    try {
      return make_descs(src, dst);
    } catch (const dnnl::error&) {
      return std::nullopt;
    }
  }

  [[nodiscard]] Descs make_descs(const Desc& src_wanted, const Desc& dst_wanted) const {
    const Dims& stride = options_.stride;
    const Dims& dilation = options_.dilation;
    const Dims& left = options_.padding;
    const Dims& right = options_.end_padding;
    const Desc any = describe(options_.weights, Tag::any, dtype_of(src_wanted));
    const Desc any_gradient = describe(options_.weights, Tag::any);  // float32, whatever type the factors have
    const auto make_forward = [&](bool relu, const Desc& from, const Desc& to, const auto&... bias) {
      return make_desc<Forward>(setting(relu), dnnl::prop_kind::forward_training, options_.algorithms.forward, from,
                                any, bias..., to, stride, dilation, left, right);
    };
    auto forward = options_.bias ? make_forward(options_.relu, src_wanted, dst_wanted, bias())
                                 : make_forward(options_.relu, src_wanted, dst_wanted);
    const Desc src = forward.src_desc();
    const Desc dst = forward.dst_desc();
    AddBias add_bias = add_bias_to(dst);
    if (add_bias) forward = make_forward(false, src, dst);
    const auto make_weights = [&](const auto&... bias) {
      return make_backward_desc<BackwardWeights>(setting(), forward, options_.algorithms.backward_weights, src,
                                                 any_gradient, bias..., dst, stride, dilation, left, right);
    };
    return {forward,
            make_backward_desc<BackwardData>(setting(), forward, options_.algorithms.backward_data, src, any, dst,
                                             stride, dilation, left, right),
            options_.bias ? make_weights(bias()) : make_weights(), std::move(add_bias)};
  }

  /// Returns none if the forward primitive is to add the bias.
  [[nodiscard]] AddBias add_bias_to(const Desc& dst) const {
    const Format out = to_format(dst, options_.out);
    const std::optional<Tag> tag = channel_tag(out);
    const bool padded = out.bytes != Format::plain(out.shape, out.dtype).bytes;
    if (!options_.bias || !options_.bias_apart || !tag || padded) return {};
    try {
      return {context_, dst, *tag, options_.relu};
    } catch (const dnnl::error&) {
      return {};
    }
  }

  [[nodiscard]] PrimitiveParameters setting(bool relu = false) const {
    return {context_->engine, attributes(relu), options_.passed_over};
  }
  [[nodiscard]] Desc bias() const { return describe({options_.out.channels}, Tag::x); }

  ContextPtr context_;
  WindowedOptions options_;
};

/// Returns out × in × height × width. With several groups it is groups × …, with the channels of one group on each
/// side.
inline Dims weight_dims(std::int64_t groups, std::int64_t out_channels, std::int64_t in_channels, const Pair& kernel) {
  if (groups == 1) return {out_channels, in_channels, kernel.height, kernel.width};
  return {groups, out_channels / groups, in_channels / groups, kernel.height, kernel.width};
}

/// Returns the beginning of the names of faulty kernels, or nothing. oneDNN's 1×1 kernels gather a strided image in
/// scratch memory. If the channels do not fill their vectors, those of 2.6.3 for AVX2 write beyond that memory.
inline std::string_view faulty_kernels(const Pair& stride, std::int64_t groups, std::int64_t in_channels,
                                       std::int64_t out_channels) {
  const bool faulty = stride != 1 && (in_channels / groups % 8 != 0 || out_channels / groups % 8 != 0);
  return faulty ? "jit_1x1" : "";
}

}  // namespace lockstep::ops::onednn
