// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/graph.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

[[noreturn]] void refuse(const std::string& node, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "layer '" + node + "' " + why);
}

std::string text(Content content) { return content == Content::real ? "real numbers" : "integers"; }

template <typename Named>
const Named* find(const std::vector<Named>& list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Named& entry) { return entry.name == name; });
  return found == list.end() ? nullptr : &*found;
}

/// Adds the tensors to the layout and returns their indices in it.
std::vector<int> own(const std::string& node, const std::vector<ops::OwnedTensor>& tensors, Layout& layout,
                     std::vector<ops::OwnedTensor>& initial) {
  std::vector<int> indices;
  for (const ops::OwnedTensor& tensor : tensors) {
    indices.push_back(layout.add(node + "." + tensor.name, tensor.shape));
    initial.push_back(tensor);
  }
  return indices;
}

bool same_shapes(const std::vector<int>& indices, const Layout& layout, const std::vector<ops::OwnedTensor>& tensors) {
  return std::equal(indices.begin(), indices.end(), tensors.begin(), tensors.end(),
                    [&](int index, const ops::OwnedTensor& tensor) { return layout.at(index).shape == tensor.shape; });
}

}  // namespace

int Graph::append_value(Value value, int input) {
  values_.push_back(std::move(value));
  input_of_.push_back(input);
  return last();
}

int Graph::input(const TensorSpec& spec) {
  const auto& [channels, height, width] = spec.extent;
  if (find(inputs_, spec.name) != nullptr) {
    throw Error(ErrorCode::invalid_argument, "model '" + name_ + "' has an input '" + spec.name + "' already");
  }
  if (channels < 1 || height < 1 || width < 1) {
    throw Error(ErrorCode::invalid_argument, "model '" + name_ + "' cannot take '" + spec.name + "' of " +
                                                 std::to_string(channels) + "×" + std::to_string(height) + "×" +
                                                 std::to_string(width));
  }
  inputs_.push_back(spec);
  return append_value({spec.name, {1, channels, height, width}, spec.content}, static_cast<int>(inputs_.size()) - 1);
}

bool Graph::take_bytes(std::size_t input, const Normalization& numbers) {
  for (const LossTerm& term : losses_)
    for (const int value : nodes_[static_cast<std::size_t>(term.node)].inputs)
      if (input_of(value) == static_cast<int>(input)) return false;
  inputs_.at(input).bytes = numbers;
  return true;
}

ops::Signature Graph::signature_of(const std::string& name, const ops::Operator& op,
                                   const std::vector<int>& inputs) const {
  if (inputs.empty()) refuse(name, "has no input");
  std::vector<ops::Shape> shapes;
  for (const int value : inputs) {
    if (value < 0 || value > last()) refuse(name, "reads value " + std::to_string(value) + ", which does not exist");
    shapes.push_back(shape(value));
  }
  ops::Signature signature;
  try {
    signature = ops::signature_of(op, shapes);
  } catch (const Error& error) {
    refuse(name, "is invalid: " + error.message());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Content wanted = i < signature.inputs.size() ? signature.inputs[i] : Content::real;
    const Value& value = values_[static_cast<std::size_t>(inputs[i])];
    if (value.content != wanted) {
      refuse(name, "reads " + text(wanted) + ", and '" + value.name + "' is " + text(value.content));
    }
  }
  return signature;
}

int Graph::append(std::string name, ops::Operator op, std::vector<int> inputs, const Node* shared) {
  if (find(nodes_, name) != nullptr) refuse(name, "exists already");
  if (auto* dropout = std::get_if<Dropout>(&op)) {
    Fnv1a hash;
    hash.add(name);
    dropout->key = hash.value();
  }
  const ops::Signature signature = signature_of(name, op, inputs);
  Node node{.name = name, .op = std::move(op), .inputs = std::move(inputs)};
  if (shared == nullptr) {
    node.parameters = own(name, signature.parameters, parameters_, initial_parameters_);
    node.state = own(name, signature.state, state_, initial_state_);
  } else {
    node.parameters = shared->parameters;
    node.state = shared->state;
    if (!same_shapes(node.parameters, parameters_, signature.parameters)) {
      refuse(name, "has inputs for which the parameters of '" + shared->name + "' have other shapes");
    }
  }
  const int index = static_cast<int>(nodes_.size());
  if (!signature.is_loss) node.output = append_value({std::move(name), signature.output, Content::real, index}, -1);
  nodes_.push_back(std::move(node));
  return nodes_.back().output;
}

int Graph::add(std::string name, ops::Operator op, std::vector<int> inputs) {
  if (signature_of(name, op, inputs).is_loss) refuse(name, "is a loss; add it by loss()");
  return append(std::move(name), std::move(op), std::move(inputs), nullptr);
}

int Graph::add(std::string name, ops::Operator op) { return add(std::move(name), std::move(op), {last()}); }

int Graph::add_shared(std::string name, std::string_view as, std::vector<int> inputs) {
  const Node* node = find(nodes_, as);
  if (node == nullptr || node->output < 0)
    refuse(name, "cannot share parameters with '" + std::string(as) + "': no such node");
  const Node like = *node;  // a copy, because `append` may reallocate the list
  return append(std::move(name), like.op, std::move(inputs), &like);
}

void Graph::loss(std::string name, ops::Operator op, std::vector<int> inputs, double coefficient,
                 Normalizer normalizer) {
  if (!signature_of(name, op, inputs).is_loss) refuse(name, "is no loss; add it by add()");
  append(std::move(name), std::move(op), std::move(inputs), nullptr);
  losses_.push_back({static_cast<int>(nodes_.size()) - 1, coefficient, normalizer});
}

void Graph::auxiliary_loss(std::string name, ops::Operator op, std::vector<int> inputs, double coefficient,
                           Normalizer normalizer) {
  loss(std::move(name), std::move(op), std::move(inputs), coefficient, normalizer);
  losses_.back().auxiliary = true;
}

void Graph::output(std::string name, int value, Output::Exported exported) {
  if (value < 0 || value > last() || input_of(value) >= 0 || find(outputs_, name) != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "model '" + name_ + "' cannot have the output '" + name + "' of value " + std::to_string(value) +
                    ": give each output a name of its own, and the value that a layer has returned");
  }
  if (exported.channels_last && shape(value).height != 1) {
    throw Error(ErrorCode::invalid_argument, "model '" + name_ + "' cannot export the output '" + name +
                                                 "' of height " + std::to_string(shape(value).height) +
                                                 " with the channels last; it must be 1");
  }
  outputs_.push_back({std::move(name), value, std::move(exported)});
}

void Graph::add_to_initial(std::string_view parameter, std::vector<double> numbers) {
  for (std::size_t i = 0; i < initial_parameters_.size(); ++i) {
    const TensorSlot& slot = parameters_.at(static_cast<int>(i));
    if (slot.name != parameter) continue;
    if (slot.count.value != std::ssize(numbers))
      refuse(slot.name, "has not " + std::to_string(numbers.size()) + " values");
    initial_parameters_[i].added = std::move(numbers);
    return;
  }
  throw Error(ErrorCode::invalid_argument,
              "model '" + name_ + "' has no parameter '" + std::string(parameter) + "' to begin with other values");
}

void Graph::constant(Constant numbers) {
  std::int64_t count = 1;
  for (const std::int64_t extent : numbers.shape) count *= extent;
  const auto has = [&](const Layout& layout) { return find(layout.tensors(), numbers.name) != nullptr; };
  if (count != std::ssize(numbers.values) || has(parameters_) || has(state_) || find(constants_, numbers.name)) {
    throw Error(ErrorCode::invalid_argument, "model '" + name_ + "' cannot have the constant '" + numbers.name +
                                                 "' of " + std::to_string(numbers.values.size()) +
                                                 " numbers: give a name of its own, and as many as its shape says");
  }
  constants_.push_back(std::move(numbers));
}

void Graph::check() const {
  if (losses_.empty()) throw Error(ErrorCode::invalid_argument, "model '" + name_ + "' has no loss");
  std::vector<int> uses = readers();
  for (const Output& output : outputs_) ++uses[static_cast<std::size_t>(output.value)];
  for (const Node& node : nodes_) {
    if (node.output < 0 || uses[static_cast<std::size_t>(node.output)] > 0) continue;
    refuse(node.name, "has an output that no other layer reads, and is not a loss");
  }
  const std::vector<bool> is_trained = contributes_to_loss();
  std::vector<bool> has_gradient(parameters_.tensors().size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (!is_trained[n]) continue;
    if (!signature_of(nodes_[n].name, nodes_[n].op, nodes_[n].inputs).has_backward)
      refuse(nodes_[n].name, "has no backward pass, so no loss can depend on it, only outputs");
    for (const int parameter : nodes_[n].parameters) has_gradient[static_cast<std::size_t>(parameter)] = true;
  }
  for (const Node& node : nodes_)
    for (const int parameter : node.parameters)
      if (!has_gradient[static_cast<std::size_t>(parameter)])
        refuse(node.name, "has the parameter '" + parameters_.at(parameter).name +
                              "', which no loss depends on: only outputs read the layer, so it would not be trained");
}

std::vector<bool> Graph::contributes_to_loss() const {
  std::vector<bool> is_run(nodes_.size());
  for (const LossTerm& term : losses_) is_run[static_cast<std::size_t>(term.node)] = true;
  return contributes(std::vector<bool>(values_.size()), std::move(is_run));
}

std::vector<bool> Graph::contributes_to_evaluation() const {
  std::vector<bool> is_read(values_.size());
  std::vector<bool> is_run(nodes_.size());
  for (const Output& output : outputs_) is_read[static_cast<std::size_t>(output.value)] = true;
  for (const LossTerm& term : losses_) is_run[static_cast<std::size_t>(term.node)] = !term.auxiliary;
  return contributes(std::move(is_read), std::move(is_run));
}

/// Adds the nodes on which those that are run and the values that are read depend.
std::vector<bool> Graph::contributes(std::vector<bool> is_read, std::vector<bool> is_run) const {
  for (std::size_t n = nodes_.size(); n-- > 0;) {
    const Node& node = nodes_[n];
    if (node.output >= 0 && is_read[static_cast<std::size_t>(node.output)]) is_run[n] = true;
    if (!is_run[n]) continue;
    for (const int value : node.inputs) is_read[static_cast<std::size_t>(value)] = true;
  }
  return is_run;
}

std::vector<int> Graph::readers() const {
  std::vector<int> count(values_.size());
  for (const Node& node : nodes_) {
    for (const int value : node.inputs) ++count[static_cast<std::size_t>(value)];
  }
  return count;
}

}  // namespace lockstep::nn
