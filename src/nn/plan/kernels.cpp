// SPDX-License-Identifier: Apache-2.0
#include "nn/plan/kernels.hpp"

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

/// Whether memory in one format can be read as the other.
bool lies_alike(const ops::Format& a, const ops::Format& b) { return a.native == b.native; }

ops::Format plain_format(const Value& value, DType dtype, std::int64_t samples) {
  ops::Shape shape = value.shape;
  shape.batch = samples;
  return ops::Format::plain(shape, value.content == Content::real ? dtype : DType::int32);
}

/// Makes what adds gradients in the format of their value, without conversions.
ops::KernelPtr make_addition(ops::Ops& ops, const ops::Format& format) {
  ops::KernelPtr kernel = ops.make(ops::Add{}, std::array{format, format});
  for (const ops::Format& taken : {kernel->traits().inputs[0], kernel->traits().inputs[1], kernel->traits().output})
    if (taken.dtype != format.dtype || taken.layout != format.layout || taken.bytes != format.bytes)
      throw Error(ErrorCode::unsupported, std::string(ops.name()) + " adds gradients as " +
                                              std::string(name(taken.dtype)) + " in the format " +
                                              std::string(taken.layout) + ", and they are " +
                                              std::string(name(format.dtype)) + " in " + std::string(format.layout));
  return kernel;
}

Kernels::OfNode make_node(const Graph& graph, const Node& node, ops::Ops& ops, DType dtype,
                          const std::vector<ops::Format>& formats) {
  std::vector<ops::Format> inputs;
  for (const int value : node.inputs) inputs.push_back(formats[static_cast<std::size_t>(value)]);
  Kernels::OfNode made{.kernel = ops.make(node.op, inputs, dtype), .inputs = {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ops::Format& wanted = made.kernel->traits().inputs[i];
    Kernels::Conversion& conversion = made.inputs.emplace_back();
    const int input = graph.input_of(node.inputs[i]);
    if (input >= 0 && graph.inputs()[static_cast<std::size_t>(input)].bytes) {
      conversion.there = ops.convert_bytes(*graph.inputs()[static_cast<std::size_t>(input)].bytes, wanted);
      continue;
    }
    if (lies_alike(inputs[i], wanted)) continue;
    conversion = {.there = ops.reorder(inputs[i], wanted), .back = ops.reorder(wanted, inputs[i])};
  }
  return made;
}

Kernels::OfOutput make_output(const Graph& graph, const Kernels& kernels, int value, ops::Ops& ops, DType dtype,
                              std::int64_t samples) {
  const ops::Format& format = kernels.formats[static_cast<std::size_t>(value)];
  const ops::Format plain = plain_format(graph.values()[static_cast<std::size_t>(value)], dtype, samples);
  if (lies_alike(format, plain)) return {};
  const std::vector<bool> is_run = graph.contributes_to_evaluation();
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (!is_run[n]) continue;
    const std::vector<int>& inputs = graph.nodes()[n].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_plain = inputs[i] == value && lies_alike(kernels.nodes[n].kernel->traits().inputs[i], plain);
      if (is_plain) return {.reader = static_cast<int>(n), .input = i};
    }
  }
  return {.convert = ops.reorder(format, plain)};
}

}  // namespace

Kernels choose_kernels(const Graph& graph, ops::Ops& ops, DType dtype, std::int64_t samples, std::size_t leaves) {
  Kernels kernels;
  for (const Value& value : graph.values()) kernels.formats.push_back(plain_format(value, dtype, samples));
  const std::vector<bool> is_trained = graph.contributes_to_loss();
  std::vector<int> users(graph.parameters().tensors().size());  // with a gradient, as the readers
  std::vector<int> readers(graph.values().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    kernels.nodes.push_back(make_node(graph, node, ops, dtype, kernels.formats));
    if (node.output >= 0) {
      kernels.formats[static_cast<std::size_t>(node.output)] = kernels.nodes.back().kernel->traits().output;
    }
    if (!is_trained[n]) continue;
    for (const int parameter : node.parameters) ++users[static_cast<std::size_t>(parameter)];
    for (const int value : node.inputs) ++readers[static_cast<std::size_t>(value)];
  }
  for (const Output& output : graph.outputs())
    kernels.outputs.push_back(make_output(graph, kernels, output.value, ops, dtype, samples));
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const bool several = readers[i] > 1 && graph.values()[i].producer >= 0;
    kernels.addition.push_back(several ? make_addition(ops, kernels.formats[i]) : nullptr);
  }
  for (std::size_t i = 0; i < users.size(); ++i) {
    const ops::Shape flat{1, graph.parameters().at(static_cast<int>(i)).count.value, 1, 1};
    kernels.sum.push_back(users[i] > 1 || leaves > 1 ? make_addition(ops, ops::Format::plain(flat, dtype)) : nullptr);
  }
  return kernels;
}

}  // namespace lockstep::nn
