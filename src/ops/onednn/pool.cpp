// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reference.hpp"
#include "ops/onednn/descriptors.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

class PoolKernel final : public Kernel {
 public:
  template <typename Kind>
  PoolKernel(const ContextPtr& context, dnnl::algorithm algorithm, const Format& in, const Kind& pool)
      : stride_(dims_of(pool.stride)), kernel_(dims_of(pool.kernel)), padding_(dims_of(pool.padding)) {
    const Shape out = pool.signature(std::span(&in.shape, 1)).output;
    const auto make = [&](dnnl::prop_kind kind) {
      return make_desc<PoolingForward>(Setting{context->engine, attributes()}, kind, algorithm, to_desc(in),
                                       describe(dims_of(out), Tag::any), stride_, kernel_, no_dilation, padding_,
                                       padding_);
    };
    const ForwardDesc training = make(dnnl::prop_kind::forward_training);
    set({.inputs = {in},
         .output = to_format(training.dst_desc(), out),
         // Which element of each window was the largest; nothing for averages.
         .saved = {static_cast<std::int64_t>(training.workspace_desc().get_size())},
         .backward_reads_inputs = false,
         .backward_reads_output = false});
    training_ = make_forward(context, training);
    inference_ = make_forward(context, make(dnnl::prop_kind::forward_inference));
    const auto desc = make_backward_desc<PoolingBackward>(Setting{context->engine, attributes()}, training, algorithm,
                                                          training.src_desc(), training.dst_desc(), stride_, kernel_,
                                                          no_dilation, padding_, padding_);
    backward_ = Primitive(context, PoolingBackward(desc), desc.scratchpad_desc(),
                          {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                           {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                           {DNNL_ARG_WORKSPACE, training.workspace_desc()}});
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? training_.kernel() : backward_.kernel();
  }

  void forward(const Arguments& call) override {
    training_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}, {DNNL_ARG_WORKSPACE, call.saved}});
  }
  void infer(const Arguments& call) override {
    inference_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}});
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    backward_.run({{DNNL_ARG_DIFF_DST, call.output_gradient},
                   {DNNL_ARG_DIFF_SRC, call.input_gradients[0]},
                   {DNNL_ARG_WORKSPACE, call.saved}});
  }

 private:
  using ForwardDesc = PoolingForward::primitive_desc;
  inline static const Dims no_dilation{0, 0};

  static Primitive make_forward(const ContextPtr& context, const ForwardDesc& desc) {
    return {context,
            PoolingForward(desc),
            desc.scratchpad_desc(),
            {{DNNL_ARG_SRC, desc.src_desc()},
             {DNNL_ARG_DST, desc.dst_desc()},
             {DNNL_ARG_WORKSPACE, desc.workspace_desc()}}};
  }

  Dims stride_;
  Dims kernel_;
  Dims padding_;
  Primitive training_;
  Primitive inference_;
  Primitive backward_;
};

}  // namespace

std::unique_ptr<Kernel> make(const MaxPool& pool, const ContextPtr& context, std::span<const Format> in) {
  return std::make_unique<PoolKernel>(context, dnnl::algorithm::pooling_max, in[0], pool);
}

std::unique_ptr<Kernel> make(const AveragePool& pool, const ContextPtr& context, std::span<const Format> in) {
  const auto algorithm = pool.count_include_pad && pool.padding != 0 ? dnnl::algorithm::pooling_avg_include_padding
                                                                     : dnnl::algorithm::pooling_avg_exclude_padding;
  return std::make_unique<PoolKernel>(context, algorithm, in[0], pool);
}

std::unique_ptr<Kernel> make(const GlobalAveragePool& /*pool*/, const ContextPtr& context, std::span<const Format> in) {
  const Pair all{in[0].shape.height, in[0].shape.width};
  return make(AveragePool{.kernel = all, .stride = all}, context, in);
}

std::unique_ptr<Kernel> make(const AdaptiveAveragePool& pool, const ContextPtr& context, std::span<const Format> in) {
  const Shape& shape = in[0].shape;
  if (shape.height % pool.height == 0 && shape.width % pool.width == 0) {
    const Pair each{shape.height / pool.height, shape.width / pool.width};
    return make(AveragePool{.kernel = each, .stride = each}, context, in);
  }
  return make_reference_ops()->make(pool, in);  // windows of different sizes
}

}  // namespace lockstep::ops::onednn
