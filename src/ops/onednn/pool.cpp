// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/descriptors.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {

namespace {

class Pool final : public Operator {
 public:
  Pool(const ContextPtr& context, dnnl::algorithm algorithm, const Format& in, const PoolShape& shape)
      : stride_{shape.stride, shape.stride}, kernel_{shape.kernel, shape.kernel} {
    const Shape out = output_shape(in.shape, shape);
    const auto make = [&](dnnl::prop_kind kind) {
      return make_desc<PoolingForward>(Setting{context->engine, attributes()}, kind, algorithm, to_desc(in),
                                       describe(dims_of(out), Tag::any), stride_, kernel_, none, none, none);
    };
    const ForwardDesc training = make(dnnl::prop_kind::forward_training);
    out_ = to_format(training.dst_desc(), out);
    // Which element of each window was the largest; empty for averages.
    saved_bytes_ = static_cast<std::int64_t>(training.workspace_desc().get_size());
    training_ = make_forward(context, training);
    inference_ = make_forward(context, make(dnnl::prop_kind::forward_inference));
    const auto desc = make_backward_desc<PoolingBackward>(Setting{context->engine, attributes()}, training, algorithm,
                                                          training.src_desc(), training.dst_desc(), stride_, kernel_,
                                                          none, none, none);
    backward_ = Primitive(context, PoolingBackward(desc), desc.scratchpad_desc(),
                          {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                           {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                           {DNNL_ARG_WORKSPACE, training.workspace_desc()}});
  }

  [[nodiscard]] const Format& output() const override { return out_; }
  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass == Pass::forward ? training_.kernel() : backward_.kernel();
  }
  [[nodiscard]] Bytes saved_bytes() const override { return {saved_bytes_}; }

  void forward(const Forward& call) override {
    arity.check(call);
    if (call.training) {
      training_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}, {DNNL_ARG_WORKSPACE, call.saved}});
    } else {
      inference_.run({{DNNL_ARG_SRC, call.inputs[0]}, {DNNL_ARG_DST, call.output}});
    }
  }

  void backward(const Backward& call) override {
    arity.check(call);
    if (call.input_gradients[0] == nullptr) return;
    backward_.run({{DNNL_ARG_DIFF_DST, call.output_gradient},
                   {DNNL_ARG_DIFF_SRC, call.input_gradients[0]},
                   {DNNL_ARG_WORKSPACE, call.saved}});
  }

 private:
  using ForwardDesc = PoolingForward::primitive_desc;
  static constexpr Arity arity{};
  inline static const Dims none{0, 0};  ///< of dilation and padding

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
  Format out_;
  std::int64_t saved_bytes_ = 0;
  Primitive training_;
  Primitive inference_;
  Primitive backward_;
};

}  // namespace

std::unique_ptr<Operator> make_max_pool(const ContextPtr& context, const Format& in, const PoolShape& shape) {
  return std::make_unique<Pool>(context, dnnl::algorithm::pooling_max, in, shape);
}

std::unique_ptr<Operator> make_average_pool(const ContextPtr& context, const Format& in, const PoolShape& shape) {
  return std::make_unique<Pool>(context, dnnl::algorithm::pooling_avg_exclude_padding, in, shape);
}

}  // namespace lockstep::ops::onednn
