// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <string>
#include <vector>

#include "ops/onednn/primitives/context.hpp"
#include "ops/onednn/primitives/format.hpp"
namespace lockstep::ops::onednn {

/// Returns the attributes of every primitive. The caller provides the scratchpads, so that a call does not allocate.
/// @param relu  whether a ReLU follows the primitive's own arithmetic
dnnl::primitive_attr attributes(bool relu = false);

/// A primitive with its memory objects, made once and then run with the pointers of each call.
class Primitive {
 public:
  struct Argument {
    int index;  ///< DNNL_ARG_…
    Desc desc;
  };
  struct Binding {
    int index;
    const void* data;
  };

  Primitive() = default;
  /// @param desc  the descriptor of any kind of primitive
  Primitive(ContextPtr context, const dnnl::primitive_desc_base& desc, std::initializer_list<Argument> arguments);

  /// Runs the primitive with the pointers of this call. @throws Error{device} if oneDNN fails
  void run(std::initializer_list<Binding> bindings);
  /// oneDNN's name for the kernel.
  [[nodiscard]] std::string kernel() const;
  [[nodiscard]] explicit operator bool() const { return context_ != nullptr; }

 private:
  void bind(int index, void* data);

  ContextPtr context_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  // These are the arguments for the C interface, because dnnl::primitive::execute would build a map and a vector at
  // every call.
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// max(x, 0); source and result may be the same memory.
class ReluForward {
 public:
  ReluForward() = default;
  ReluForward(const ContextPtr& context, const Desc& desc);
  void run(const void* input, void* output);
  [[nodiscard]] std::string kernel() const { return primitive_.kernel(); }

 private:
  Primitive primitive_;
};

/// Masks a gradient by the sign of a ReLU's output; source and result may be the same memory.
class ReluBackward {
 public:
  ReluBackward() = default;
  ReluBackward(const ContextPtr& context, const Desc& desc);
  void run(const void* output, const void* output_gradient, void* input_gradient);
  [[nodiscard]] std::string kernel() const { return primitive_.kernel(); }

 private:
  Primitive primitive_;
};

/// Adds a bias per channel to a tensor in place, and then applies a ReLU or nothing.
class AddBias {
 public:
  AddBias() = default;
  /// @param tag   the tensor's layout, in which channels have no padding
  /// @param relu  whether a ReLU follows
  /// @throws dnnl::error if oneDNN has no fast kernel for it
  AddBias(const ContextPtr& context, const Desc& desc, Tag tag, bool relu);
  void run(const void* bias, void* values);
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(primitive_); }

 private:
  Primitive primitive_;
};

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
