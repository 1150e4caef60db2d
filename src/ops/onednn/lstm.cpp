// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/descriptors.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/onednn/primitives/primitive.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::onednn {
namespace {

/// oneDNN's LSTM in both directions on whole sequences. It works on T×N×features, with the weights of both directions
/// side by side, so tensors and weights are copied.
class LstmKernel final : public Kernel {
 public:
  LstmKernel(const ContextPtr& context, const Format& in, const Lstm& lstm)
      : steps_(in.shape.width), batch_(in.shape.batch), inputs_(in.shape.channels), hidden_(lstm.hidden) {
    const auto training = describe_forward(context, dnnl::prop_kind::forward_training);
    set({.inputs = {Format::plain(in.shape, in.dtype)},
         .output = Format::plain(lstm.signature(std::span(&in.shape, 1)).output, in.dtype),
         .saved = {static_cast<std::int64_t>(training.workspace_desc().get_size())}});
    training_ = make_forward(context, training);
    inference_ = make_forward(context, describe_forward(context, dnnl::prop_kind::forward_inference));
    backward_ = make_backward(context, training);
    make_copies(context);
  }

  [[nodiscard]] std::string algorithm(Pass pass) const override {
    return pass != Pass::backward ? training_.kernel() : backward_.kernel();
  }

  void forward(const Arguments& call) override { run_forward(training_, call); }
  void infer(const Arguments& call) override { run_forward(inference_, call); }

  void backward(const Arguments& call) override {
    inputs_in_.run({{DNNL_ARG_FROM, call.inputs[0]}, {DNNL_ARG_TO, xs_.data()}});
    states_in_.run({{DNNL_ARG_FROM, call.output}, {DNNL_ARG_TO, states_.data()}});
    states_in_.run({{DNNL_ARG_FROM, call.output_gradient}, {DNNL_ARG_TO, d_states_.data()}});
    read_bias(call);
    for (std::size_t which = 0; which < matrices; ++which) {
      const std::int64_t count = gates * hidden_ * columns_of(which);
      for (std::int64_t d = 0; d < directions; ++d)
        std::copy_n(parameter(call, d, which), count, stacked_[which].data() + d * count);
      // oneDNN adds to the gradients of weights.
      std::fill(transposed_[which].begin(), transposed_[which].end(), 0.0F);
    }
    std::fill(d_bias_.begin(), d_bias_.end(), 0.0F);
    backward_.run({{DNNL_ARG_SRC_LAYER, xs_.data()},
                   {DNNL_ARG_WEIGHTS_LAYER, stacked_[0].data()},
                   {DNNL_ARG_WEIGHTS_ITER, stacked_[1].data()},
                   {DNNL_ARG_BIAS, bias_.data()},
                   {DNNL_ARG_DST_LAYER, states_.data()},
                   {DNNL_ARG_DIFF_SRC_LAYER, d_xs_.data()},
                   {DNNL_ARG_DIFF_WEIGHTS_LAYER, transposed_[0].data()},
                   {DNNL_ARG_DIFF_WEIGHTS_ITER, transposed_[1].data()},
                   {DNNL_ARG_DIFF_BIAS, d_bias_.data()},
                   {DNNL_ARG_DIFF_DST_LAYER, d_states_.data()},
                   {DNNL_ARG_WORKSPACE, call.saved}});
    for (std::int64_t d = 0; d < directions; ++d) {
      for (std::size_t which = 0; which < matrices; ++which) {
        const std::int64_t count = gates * hidden_ * columns_of(which);
        transpose_back_[which].run({{DNNL_ARG_FROM, transposed_[which].data() + d * count},
                                    {DNNL_ARG_TO, call.parameter_gradients[index(d, which)]}});
      }
      for (const std::size_t which : biases)
        std::copy_n(d_bias_.data() + d * gates * hidden_, gates * hidden_,
                    static_cast<float*>(call.parameter_gradients[index(d, which)]));
    }
    if (call.input_gradients[0] != nullptr)
      inputs_out_.run({{DNNL_ARG_FROM, d_xs_.data()}, {DNNL_ARG_TO, call.input_gradients[0]}});
  }

 private:
  static constexpr std::int64_t gates = 4;
  static constexpr std::int64_t directions = 2;
  static constexpr auto both = dnnl::rnn_direction::bidirectional_concat;
  static constexpr std::size_t matrices = 2;                 // of the inputs, and of the states
  static constexpr std::array<std::size_t, 2> biases{2, 3};  // each direction has four parameters
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
  static std::size_t index(std::int64_t direction, std::size_t which) { return size(4 * direction) + which; }
  static const float* parameter(const Arguments& call, std::int64_t direction, std::size_t which) {
    return static_cast<const float*>(call.parameters[index(direction, which)]);
  }
  [[nodiscard]] std::int64_t columns_of(std::size_t which) const { return which == 0 ? inputs_ : hidden_; }

  [[nodiscard]] Desc sequence(std::int64_t features) const { return describe({steps_, batch_, features}, Tag::tnc); }
  /// Describes N×features×1×T as T×N×features.
  [[nodiscard]] Desc plain_sequence(std::int64_t features) const {
    return {{steps_, batch_, features}, dnnl::memory::data_type::f32, {1, features * steps_, steps_}};
  }
  [[nodiscard]] Desc weights(std::int64_t columns, Tag tag) const {
    return describe({1, directions, columns, gates, hidden_}, tag);
  }

  [[nodiscard]] Desc states() const { return sequence(directions * hidden_); }
  [[nodiscard]] Desc bias() const { return describe({1, directions, gates, hidden_}, Tag::ldgo); }

  [[nodiscard]] dnnl::lstm_forward::primitive_desc describe_forward(const ContextPtr& context,
                                                                    dnnl::prop_kind kind) const {
    const Desc none;
    return make_desc<dnnl::lstm_forward>(PrimitiveParameters{context->engine, attributes()}, kind, both,
                                         sequence(inputs_), none, none, weights(inputs_, Tag::ldigo),
                                         weights(hidden_, Tag::ldigo), bias(), states(), none, none);
  }

  [[nodiscard]] Primitive make_forward(const ContextPtr& context,
                                       const dnnl::lstm_forward::primitive_desc& desc) const {
    return {context,
            desc,
            {{DNNL_ARG_SRC_LAYER, sequence(inputs_)},
             {DNNL_ARG_WEIGHTS_LAYER, weights(inputs_, Tag::ldigo)},
             {DNNL_ARG_WEIGHTS_ITER, weights(hidden_, Tag::ldigo)},
             {DNNL_ARG_BIAS, bias()},
             {DNNL_ARG_DST_LAYER, states()},
             {DNNL_ARG_WORKSPACE, desc.workspace_desc()}}};
  }

  [[nodiscard]] Primitive make_backward(const ContextPtr& context,
                                        const dnnl::lstm_forward::primitive_desc& training) const {
    const Desc none;
    const Desc xs = sequence(inputs_);
    const Desc of_inputs = weights(inputs_, Tag::ldgoi);
    const Desc of_states = weights(hidden_, Tag::ldgoi);
    const Desc d_of_inputs = weights(inputs_, Tag::ldigo);
    const Desc d_of_states = weights(hidden_, Tag::ldigo);
    const auto desc = make_backward_desc<dnnl::lstm_backward>(
        PrimitiveParameters{context->engine, attributes()}, training, dnnl::prop_kind::backward, both, xs, none, none,
        of_inputs, of_states, bias(), states(), none, none, xs, none, none, d_of_inputs, d_of_states, bias(), states(),
        none, none);
    return {context,
            desc,
            {{DNNL_ARG_SRC_LAYER, xs},
             {DNNL_ARG_WEIGHTS_LAYER, of_inputs},
             {DNNL_ARG_WEIGHTS_ITER, of_states},
             {DNNL_ARG_BIAS, bias()},
             {DNNL_ARG_DST_LAYER, states()},
             {DNNL_ARG_DIFF_SRC_LAYER, xs},
             {DNNL_ARG_DIFF_WEIGHTS_LAYER, d_of_inputs},
             {DNNL_ARG_DIFF_WEIGHTS_ITER, d_of_states},
             {DNNL_ARG_DIFF_BIAS, bias()},
             {DNNL_ARG_DIFF_DST_LAYER, states()},
             {DNNL_ARG_WORKSPACE, training.workspace_desc()}}};
  }

  /// Makes the tensors that the primitives work on, and what copies them.
  void make_copies(const ContextPtr& context) {
    inputs_in_ = make_reorder(context, plain_sequence(inputs_), sequence(inputs_));
    inputs_out_ = make_reorder(context, sequence(inputs_), plain_sequence(inputs_));
    states_in_ = make_reorder(context, plain_sequence(directions * hidden_), states());
    states_out_ = make_reorder(context, states(), plain_sequence(directions * hidden_));
    for (std::size_t which = 0; which < matrices; ++which) {
      const Dims dims{gates * hidden_, columns_of(which)};
      transpose_[which] = make_reorder(context, describe(dims, Tag::ab), describe(dims, Tag::ba));
      transpose_back_[which] = make_reorder(context, describe(dims, Tag::ba), describe(dims, Tag::ab));
      transposed_[which].resize(size(directions * dims[0] * dims[1]));
      stacked_[which].resize(transposed_[which].size());
    }
    for (std::vector<float>* const copy : {&bias_, &d_bias_}) copy->resize(size(directions * gates * hidden_));
    for (std::vector<float>* const copy : {&xs_, &d_xs_}) copy->resize(size(steps_ * batch_ * inputs_));
    for (std::vector<float>* const copy : {&states_, &d_states_})
      copy->resize(size(steps_ * batch_ * directions * hidden_));
  }

  void read_bias(const Arguments& call) {
    for (std::int64_t d = 0; d < directions; ++d) {
      for (std::int64_t j = 0; j < gates * hidden_; ++j)
        bias_[size(d * gates * hidden_ + j)] = parameter(call, d, biases[0])[j] + parameter(call, d, biases[1])[j];
    }
  }

  void run_forward(Primitive& primitive, const Arguments& call) {
    inputs_in_.run({{DNNL_ARG_FROM, call.inputs[0]}, {DNNL_ARG_TO, xs_.data()}});
    read_bias(call);
    for (std::size_t which = 0; which < matrices; ++which) {
      const std::int64_t count = gates * hidden_ * columns_of(which);
      for (std::int64_t d = 0; d < directions; ++d)
        transpose_[which].run(
            {{DNNL_ARG_FROM, parameter(call, d, which)}, {DNNL_ARG_TO, transposed_[which].data() + d * count}});
    }
    primitive.run({{DNNL_ARG_SRC_LAYER, xs_.data()},
                   {DNNL_ARG_WEIGHTS_LAYER, transposed_[0].data()},
                   {DNNL_ARG_WEIGHTS_ITER, transposed_[1].data()},
                   {DNNL_ARG_BIAS, bias_.data()},
                   {DNNL_ARG_DST_LAYER, states_.data()},
                   {DNNL_ARG_WORKSPACE, call.saved}});
    states_out_.run({{DNNL_ARG_FROM, states_.data()}, {DNNL_ARG_TO, call.output}});
  }

  std::int64_t steps_;
  std::int64_t batch_;
  std::int64_t inputs_;
  std::int64_t hidden_;
  Primitive training_;
  Primitive inference_;
  Primitive backward_;
  Primitive inputs_in_;
  Primitive inputs_out_;
  Primitive states_in_;
  Primitive states_out_;
  std::array<Primitive, matrices> transpose_;
  std::array<Primitive, matrices> transpose_back_;
  std::array<std::vector<float>, matrices> transposed_;  ///< weights with the gates innermost, or their gradients
  std::array<std::vector<float>, matrices> stacked_;     ///< weights as lockstep has them, of both directions
  std::vector<float> bias_;
  std::vector<float> d_bias_;
  std::vector<float> xs_;
  std::vector<float> d_xs_;
  std::vector<float> states_;
  std::vector<float> d_states_;
};

}  // namespace

KernelPtr make(const Lstm& lstm, const ContextPtr& context, Formats in) {
  const bool has_lengths = in.size() > 1;
  // In one direction without initial states, oneDNN 2.6.3 adds something to the gradient of "weight_hh_l0", even where
  // there is one step only, whose gradient is zero.
  if (has_lengths || !lstm.bidirectional || in[0].dtype != DType::float32) return nullptr;
  return std::make_unique<LstmKernel>(context, in[0], lstm);
}

}  // namespace lockstep::ops::onednn
