// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/reordered.hpp"

namespace lockstep::ops::onednn {

Primitive make_reorder(const ContextPtr& context, const Desc& from, const Desc& to) {
  const dnnl::reorder::primitive_desc desc(context->engine, from, context->engine, to, attributes());
  return {context, dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

Reordered::Reordered(const ContextPtr& context, const Desc& outer, const Desc& inner) : context_(context) {
  if (outer == inner) return;
  context_->reordered.reserve(inner.get_size());
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

}  // namespace lockstep::ops::onednn
