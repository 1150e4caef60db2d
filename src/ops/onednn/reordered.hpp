// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/onednn/primitive.hpp"

namespace lockstep::ops::onednn {

/// Copies a tensor from one layout to another: DNNL_ARG_FROM → DNNL_ARG_TO.
Primitive make_reorder(const ContextPtr& context, const Desc& from, const Desc& to);

/// A tensor that the caller keeps in one layout and a primitive needs in another. If the two are equal, nothing is
/// copied; otherwise the copy lives in the context's workspace until the next reorder.
class Reordered {
 public:
  Reordered() = default;
  /// @param outer  the caller's layout
  /// @param inner  the primitive's layout
  Reordered(const ContextPtr& context, const Desc& outer, const Desc& inner);

  /// Copies the caller's tensor in. @return the address for the primitive
  const void* load(const void* outer);
  /// Returns the address to which the primitive writes what `store` then copies out.
  [[nodiscard]] void* target(void* outer) const;
  void store(void* outer);

 private:
  ContextPtr context_;
  Primitive in_;
  Primitive out_;
};

}  // namespace lockstep::ops::onednn
