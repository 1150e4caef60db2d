// SPDX-License-Identifier: Apache-2.0
#include "nn/make_operator.hpp"

#include <variant>

namespace lockstep::nn {
namespace {

struct Maker {
  ops::Ops& ops;
  std::span<const ops::Format> in;

  using Made = std::unique_ptr<ops::Operator>;
  Made operator()(const Convolution& shape) const { return ops.convolution(in[0], shape); }
  Made operator()(const BatchNorm& shape) const { return ops.batch_norm(in[0], shape); }
  Made operator()(const Relu&) const { return ops.relu(in[0]); }
  Made operator()(const MaxPool& pool) const { return ops.max_pool(in[0], pool.window); }
  Made operator()(const AveragePool& pool) const { return ops.average_pool(in[0], pool.window); }
  Made operator()(const Linear& linear) const { return ops.linear(in[0], linear.out_features, linear.activation); }
  Made operator()(const Add& add) const { return ops.add(in[0], in[1], add.activation); }
};

}  // namespace

std::unique_ptr<ops::Operator> make_operator(ops::Ops& ops, const LayerKind& kind,
                                             std::span<const ops::Format> inputs) {
  return std::visit(Maker{ops, inputs}, kind);
}

}  // namespace lockstep::nn
