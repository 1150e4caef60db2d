// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/nn/gradient_sink.hpp"
#include "lockstep/nn/network.hpp"
#include "lockstep/nn/tensors.hpp"
#include "lockstep/ops/ops.hpp"
#include "nn/memory_plan.hpp"

namespace lockstep::nn {

/// A network made ready for one batch size: its operators, the plan of their memory, and every pointer they are called
/// with, so that passes allocate nothing.
///
/// A step has 2L + 1 moments for L layers: forward of layer l at l, the loss at L, backward of layer l at 2L − l.
/// An activation lives until its own layer's backward pass, which reads it last; the gradient with respect to it from
/// its first reader's backward pass (the last in the list) until its own layer's.
class Program {
 public:
  /// All memory that a program reads and writes, apart from the images.
  struct Memory {
    std::byte* arena = nullptr;  ///< at least `plan().total`
    Buffer parameters;
    Buffer gradients;
    Buffer state;
  };

  /// @param batch  0 is allowed: a rank without samples takes every step with the others
  Program(const Network& network, const Tensors& tensors, ops::Ops& ops, DType dtype, std::int64_t batch);

  [[nodiscard]] std::span<const Lifetime> lifetimes() const { return lifetimes_; }
  [[nodiscard]] const MemoryPlan& plan() const { return plan_; }

  [[nodiscard]] const ops::Operator& operator_of(int layer) const {
    return *calls_[static_cast<std::size_t>(layer)].op;
  }

  /// Sets all pointers. It must be called before the first pass and whenever memory moves.
  void place(const Tensors& tensors, const Memory& memory);

  /// @param observer  may be null, here and below
  ops::Loss::Result forward(const void* images, const std::int32_t* labels, bool training, Observer* observer);
  void backward(GradientSink& sink, Observer* observer);

 private:
  static constexpr int none = -1;  ///< in place of a buffer's index

  /// A result that several layers read gets a gradient from each; `op` adds two of them.
  struct GradientSum {
    std::unique_ptr<ops::Operator> op;
    int terms[2] = {none, none};
    int sum = none;
    const void* inputs[2] = {nullptr, nullptr};
    void* output = nullptr;
  };

  /// One layer's operator, its buffers (indices into the plan) and the pointers that follow from them.
  struct Call {
    std::unique_ptr<ops::Operator> op;
    std::string forward_name;  ///< of the span
    std::string backward_name;
    const Layer* layer = nullptr;
    const LayerTensors* tensors = nullptr;
    int output = none;
    int saved = none;
    int output_gradient = none;
    std::vector<int> input_gradients;
    std::vector<GradientSum> sums;  ///< to do after this layer's backward pass

    std::vector<const void*> input_pointers;
    std::vector<const void*> parameter_pointers;
    std::vector<void*> state_pointers;
    std::vector<void*> input_gradient_pointers;
    std::vector<void*> parameter_gradient_pointers;
    void* output_pointer = nullptr;
    void* saved_pointer = nullptr;
    void* output_gradient_pointer = nullptr;
  };

  void make_operators(ops::Ops& ops, const ops::Format& images);
  void plan_forward();
  void plan_backward(ops::Ops& ops);
  void plan_input_gradients(ops::Ops& ops, std::size_t layer, std::vector<int>& gradient_of);
  int add_buffer(Bytes bytes, int moment);
  int use(int buffer, int moment);
  [[nodiscard]] void* address(int buffer, const Memory& memory) const;
  void place(Call& call, const Tensors& tensors, const Memory& memory) const;
  void feed(const void* images);
  static void backward(const Call& call);

  std::vector<Call> calls_;
  std::unique_ptr<ops::Loss> loss_;
  std::vector<Lifetime> lifetimes_;
  MemoryPlan plan_;
};

}  // namespace lockstep::nn
