// SPDX-License-Identifier: Apache-2.0
#include "kernels/max_pool.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/onednn/primitives/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {
namespace {

class PoolKernel final : public Kernel {
 public:
  template <typename Kind>
  PoolKernel(const ContextPtr& context, dnnl::algorithm algorithm, const Format& in, const Kind& pool, bool relu)
      : relu_(relu), stride_(dims_of(pool.stride)), kernel_(dims_of(pool.kernel)), padding_(dims_of(pool.padding)) {
    // In windows that overlap, a sum of gradients would be rounded at each addition.
    const bool overlap = stride_[0] < kernel_[0] || stride_[1] < kernel_[1];
    if (overlap && in.dtype != DType::float32) throw dnnl::error(dnnl_unimplemented, "sums are not float32");
    const Shape out = pool.signature(std::span(&in.shape, 1)).output;
    const auto make = [&](dnnl::prop_kind kind) {
      return make_desc<PoolingForward>(PrimitiveParameters{context->engine, attributes()}, kind, algorithm, to_desc(in),
                                       describe(dims_of(out), Tag::any, in.dtype), stride_, kernel_, no_dilation,
                                       padding_, padding_);
    };
    const ForwardDesc training = make(dnnl::prop_kind::forward_training);
    set({.inputs = {in},
         .output = to_format(training.dst_desc(), out),
         // The workspace holds the position of each window's largest element; it is empty for averages.
         .saved = {static_cast<std::int64_t>(training.workspace_desc().get_size())},
         .backward_reads_inputs = false,
         .backward_reads_output = relu});
    if (relu) {
      relu_forward_ = ReluForward(context, training.dst_desc());
      relu_backward_ = ReluBackward(context, training.dst_desc());
    }
    training_ = make_forward(context, training);
    inference_ = make_forward(context, make(dnnl::prop_kind::forward_inference));
    const auto desc = make_backward_desc<PoolingBackward>(PrimitiveParameters{context->engine, attributes()}, training,
                                                          algorithm, training.src_desc(), training.dst_desc(), stride_,
                                                          kernel_, no_dilation, padding_, padding_);
    backward_ = Primitive(context, desc,
                          {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                           {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                           {DNNL_ARG_WORKSPACE, training.workspace_desc()}});
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? training_.kernel() : backward_.kernel();
  }

  void forward(const Arguments& call) override {
    training_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}, {DNNL_ARG_WORKSPACE, call.saved}});
    if (relu_) relu_forward_.run(call.output, call.output);
  }
  void infer(const Arguments& call) override {
    inference_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}});
    if (relu_) relu_forward_.run(call.output, call.output);
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    if (relu_) relu_backward_.run(call.output, call.output_gradient, call.output_gradient);
    backward_.run({{DNNL_ARG_DIFF_DST, call.output_gradient},
                   {DNNL_ARG_DIFF_SRC, call.input_gradients[0]},
                   {DNNL_ARG_WORKSPACE, call.saved}});
  }

 private:
  using ForwardDesc = PoolingForward::primitive_desc;
  inline static const Dims no_dilation{0, 0};

  static Primitive make_forward(const ContextPtr& context, const ForwardDesc& desc) {
    return {context,
            desc,
            {{DNNL_ARG_SRC, desc.src_desc()},
             {DNNL_ARG_DST, desc.dst_desc()},
             {DNNL_ARG_WORKSPACE, desc.workspace_desc()}}};
  }

  bool relu_;
  Dims stride_;
  Dims kernel_;
  Dims padding_;
  Primitive training_;
  Primitive inference_;
  Primitive backward_;
  ReluForward relu_forward_;
  ReluBackward relu_backward_;
};

/// Max pool with windows that do not overlap, over channels in blocks, by lockstep's own loops.
class BlockedMaxPoolKernel final : public Kernel {
 public:
  BlockedMaxPoolKernel(const Format& in, const MaxPool& pool) {
    const Shape out_shape = pool.signature(std::span(&in.shape, 1)).output;
    const Format out = to_format(describe(dims_of(out_shape), *channel_tag(in)), out_shape);
    set({.inputs = {in},
         .output = out,
         .saved = {out.bytes.value / size_of(DType::float32)},  // one byte for each position
         .backward_reads_inputs = false,
         .backward_reads_output = false});
    const kernels::ChannelLayout layout = channel_layout(in);
    grid_ = {.planes = layout.images * layout.groups,
             .rows = in.shape.height,
             .columns = in.shape.width,
             .window_rows = pool.kernel.height,
             .window_columns = pool.kernel.width,
             .lanes = layout.lanes,
             .relu = pool.activation == Activation::relu};
  }

  static bool can(const Format& in, const MaxPool& pool) {
    const std::optional<Tag> tag = channel_tag(in);
    return in.dtype == DType::float32 && (tag == Tag::nChw16c || tag == Tag::nChw8c) && pool.stride == pool.kernel &&
           pool.padding == 0 && pool.kernel.area() <= kernels::most_of_pool_window;
  }

  void forward(const Arguments& call) override { run(call, static_cast<std::uint8_t*>(call.saved)); }
  void infer(const Arguments& call) override { run(call, nullptr); }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    on_team([&](int member, int members) {
      const Part part = part_of(member, members);
      kernels::max_pool_backward(part.grid, static_cast<const std::uint8_t*>(call.saved) + part.out,
                                 static_cast<const float*>(call.output_gradient) + part.out,
                                 static_cast<float*>(call.input_gradients[0]) + part.in);
    });
  }

 private:
  /// A range of planes, and the offsets of its first elements.
  struct Part {
    kernels::PoolGrid grid;
    std::int64_t in;
    std::int64_t out;
  };
  [[nodiscard]] Part part_of(int member, int members) const {
    const std::int64_t first = grid_.planes * member / members;
    kernels::PoolGrid grid = grid_;
    grid.planes = grid_.planes * (member + 1) / members - first;
    const Shape& out = traits().output.shape;
    return {grid, first * grid.rows * grid.columns * grid.lanes, first * out.height * out.width * grid.lanes};
  }

  void run(const Arguments& call, std::uint8_t* places) const {
    const auto pool = [&](int member, int members) {
      const Part part = part_of(member, members);
      kernels::max_pool(part.grid, static_cast<const float*>(call.inputs[0]) + part.in,
                        static_cast<float*>(call.output) + part.out, places == nullptr ? nullptr : places + part.out);
    };
    on_team(std::ref(pool));  // std::ref, because std::function would allocate for these captures
  }

  kernels::PoolGrid grid_{};
};

}  // namespace

KernelPtr make(const MaxPool& pool, const ContextPtr& context, Formats in) {
  if (BlockedMaxPoolKernel::can(in[0], pool)) return std::make_unique<BlockedMaxPoolKernel>(in[0], pool);
  const bool relu = pool.activation == Activation::relu;
  return std::make_unique<PoolKernel>(context, dnnl::algorithm::pooling_max, in[0], pool, relu);
}

KernelPtr make(const AveragePool& pool, const ContextPtr& context, Formats in) {
  const auto algorithm = pool.count_include_pad && pool.padding != 0 ? dnnl::algorithm::pooling_avg_include_padding
                                                                     : dnnl::algorithm::pooling_avg_exclude_padding;
  return std::make_unique<PoolKernel>(context, algorithm, in[0], pool, false);
}

KernelPtr make(const GlobalAveragePool& /*pool*/, const ContextPtr& context, Formats in) {
  const Pair all{in[0].shape.height, in[0].shape.width};
  return make(AveragePool{.kernel = all, .stride = all}, context, in);
}

KernelPtr make(const AdaptiveAveragePool& pool, const ContextPtr& context, Formats in) {
  const Shape& shape = in[0].shape;
  if (shape.height % pool.height == 0 && shape.width % pool.width == 0) {
    const Pair each{shape.height / pool.height, shape.width / pool.width};
    return make(AveragePool{.kernel = each, .stride = each}, context, in);
  }
  return make_reference_ops()->make(pool, in);  // windows have different sizes
}

}  // namespace lockstep::ops::onednn
