// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/primitives/primitive.hpp"

#include "base/signal_stack.hpp"
#include "ops/onednn/primitives/descriptors.hpp"

// These are the functions of libgomp that gcc calls for `#pragma omp parallel`. Other compilers would bring their own
// runtime, with a team of its own.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned members, unsigned flags);
extern "C" int omp_get_thread_num();
extern "C" int omp_get_num_threads();
extern "C" int omp_get_max_threads();

namespace lockstep::ops::onednn {
namespace {

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  throw Error(ErrorCode::device, std::string("oneDNN could not ") + what + ": status " + std::to_string(status));
}

/// Lets signals arrive while this thread's team computes. The threads of a team stay as long as its size.
void prepare_for_signals() {
  thread_local int prepared = 0;
  const int members = omp_get_max_threads();
  if (members == prepared) return;
  on_team([](int /*member*/, int /*members*/) { use_signal_stack(); });
  prepared = members;
}

Bytes bytes_of(const Desc& desc) { return {static_cast<std::int64_t>(desc.get_size())}; }

}  // namespace

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr result;
  result.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops after;
    append_relu(after);
    result.set_post_ops(after);
  }
  return result;
}

Primitive::Primitive(ContextPtr context, const dnnl::primitive_desc_base& desc,
                     std::initializer_list<Argument> arguments)
    : context_(std::move(context)), primitive_(desc.get()) {
  const auto add = [this](int index, const Desc& layout) {
    memories_.emplace_back(layout, context_->engine, nullptr);
    arguments_.push_back({index, memories_.back().get()});
  };
  for (const Argument& argument : arguments) add(argument.index, argument.desc);
  context_->scratchpad.reserve(bytes_of(desc.scratchpad_desc()));
  add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
}

void Primitive::run(std::initializer_list<Binding> bindings) {
  prepare_for_signals();
  // oneDNN's memory objects take void*, even for memory that the primitive only reads.
  for (const Binding& b : bindings) bind(b.index, const_cast<void*>(b.data));
  bind(DNNL_ARG_SCRATCHPAD, context_->scratchpad.data());
  check(dnnl_primitive_execute(primitive_.get(), context_->stream.get(), static_cast<int>(arguments_.size()),
                               arguments_.data()),
        "execute a primitive");
}

std::string Primitive::kernel() const {
  const char* text = nullptr;
  check(dnnl_primitive_desc_query(primitive_.get_primitive_desc(), dnnl_query_impl_info_str, 0,
                                  static_cast<void*>(&text)),
        "name a kernel");
  return text;
}

void Primitive::bind(int index, void* data) {
  for (const dnnl_exec_arg_t& argument : arguments_) {
    if (argument.arg == index) check(dnnl_memory_set_data_handle(argument.memory, data), "bind memory");
  }
}

ReluForward::ReluForward(const ContextPtr& context, const Desc& desc) {
  const auto forward = make_desc<dnnl::eltwise_forward>(PrimitiveParameters{context->engine, attributes()},
                                                        dnnl::prop_kind::forward_training,
                                                        dnnl::algorithm::eltwise_relu, desc, desc, 0.0F);
  primitive_ = Primitive(context, forward, {{DNNL_ARG_SRC, desc}, {DNNL_ARG_DST, desc}});
}

void ReluForward::run(const void* input, void* output) {
  primitive_.run({{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}});
}

ReluBackward::ReluBackward(const ContextPtr& context, const Desc& desc) {
  // With "use_dst" the sign of the output replaces that of the input, so the input need not be kept.
  const auto algorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const auto forward = make_desc<dnnl::eltwise_forward>(PrimitiveParameters{context->engine, attributes()},
                                                        dnnl::prop_kind::forward_training, algorithm, desc, desc, 0.0F);
  const auto backward = make_backward_desc<dnnl::eltwise_backward>(PrimitiveParameters{context->engine, attributes()},
                                                                   forward, algorithm, desc, desc, desc, 0.0F);
  primitive_ =
      Primitive(context, backward, {{DNNL_ARG_DST, desc}, {DNNL_ARG_DIFF_DST, desc}, {DNNL_ARG_DIFF_SRC, desc}});
}

void ReluBackward::run(const void* output, const void* output_gradient, void* input_gradient) {
  primitive_.run({{DNNL_ARG_DST, output}, {DNNL_ARG_DIFF_DST, output_gradient}, {DNNL_ARG_DIFF_SRC, input_gradient}});
}

AddBias::AddBias(const ContextPtr& context, const Desc& desc, Tag tag, bool relu) {
  // In another layout than the tensor's, oneDNN 2.6.3 has only a reference kernel.
  const Desc bias = describe({1, dims_of(desc)[1], 1, 1}, tag);
  const auto sum = make_desc<dnnl::binary>(PrimitiveParameters{context->engine, attributes(relu), "ref"},
                                           dnnl::algorithm::binary_add, desc, bias, desc);
  primitive_ = Primitive(context, sum, {{DNNL_ARG_SRC_0, desc}, {DNNL_ARG_SRC_1, bias}, {DNNL_ARG_DST, desc}});
}

void AddBias::run(const void* bias, void* values) {
  primitive_.run({{DNNL_ARG_SRC_0, values}, {DNNL_ARG_SRC_1, bias}, {DNNL_ARG_DST, values}});
}

Primitive make_reorder(const ContextPtr& context, const Desc& from, const Desc& to) {
  const dnnl::reorder::primitive_desc desc(context->engine, from, context->engine, to, attributes());
  return {context, desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

Reordered::Reordered(const ContextPtr& context, const Desc& outer, const Desc& inner) : context_(context) {
  if (outer == inner) return;
  context_->reordered.reserve(bytes_of(inner));
  in_ = make_reorder(context, outer, inner);
  out_ = make_reorder(context, inner, outer);
}

const void* Reordered::load(const void* outer) {
  if (!in_) return outer;
  in_.run({{DNNL_ARG_FROM, outer}, {DNNL_ARG_TO, context_->reordered.data()}});
  return context_->reordered.data();
}

void* Reordered::target(void* outer) const { return in_ ? context_->reordered.data() : outer; }

void Reordered::store(void* outer) {
  if (out_) out_.run({{DNNL_ARG_FROM, context_->reordered.data()}, {DNNL_ARG_TO, outer}});
}

void on_team(const std::function<void(int, int)>& body) {
  using Body = std::function<void(int, int)>;
  constexpr unsigned as_many_as_set = 0;
  Body mine = body;
  GOMP_parallel([](void* data) { (*static_cast<const Body*>(data))(omp_get_thread_num(), omp_get_num_threads()); },
                &mine, as_many_as_set, 0);
}

}  // namespace lockstep::ops::onednn
