// SPDX-License-Identifier: Apache-2.0
// Tests the form of exported models. mpi-scripts/parity/onnx.sh compares what onnxruntime computes from them.
#include "nn/onnx/onnx.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::nn {
namespace {

/// The fields of a message by number: bytes of texts and messages, and numbers as they are.
struct Fields {
  std::multimap<int, std::string> texts;
  std::multimap<int, std::uint64_t> numbers;

  [[nodiscard]] std::vector<std::string> all(int field) const {
    std::vector<std::string> found;
    for (auto [at, end] = texts.equal_range(field); at != end; ++at) found.push_back(at->second);
    return found;
  }
  [[nodiscard]] std::string text(int field) const { return all(field).empty() ? "" : all(field).front(); }
  [[nodiscard]] std::vector<std::int64_t> integers(int field) const {
    std::vector<std::int64_t> found;
    for (auto [at, end] = numbers.equal_range(field); at != end; ++at)
      found.push_back(static_cast<std::int64_t>(at->second));
    return found;
  }
};

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

Fields fields_of(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const std::uint64_t key = varint(bytes);
    const int field = static_cast<int>(key >> 3);
    if ((key & 7) == 0) {
      fields.numbers.emplace(field, varint(bytes));
      continue;
    }
    const std::size_t length = (key & 7) == 2 ? varint(bytes) : (key & 7) == 1 ? 8 : 4;
    fields.texts.emplace(field, bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return fields;
}

/// "N×3×32×32" of a ValueInfoProto in float32.
std::string extents_of(const Fields& value) {
  const Fields tensor = fields_of(fields_of(value.text(2)).text(1));
  EXPECT_EQ(tensor.integers(1), std::vector<std::int64_t>{1}) << "float32";
  std::string text;
  for (const std::string& dim : fields_of(tensor.text(2)).all(1)) {
    const Fields one = fields_of(dim);
    text += (text.empty() ? "" : "×") + (one.text(2).empty() ? std::to_string(one.integers(1).front()) : one.text(2));
  }
  return text;
}

struct Exported {
  Graph graph;
  Fields model;
  Fields onnx;

  explicit Exported(const ModelDescription& description)
      : graph(make_model(description.model, description.data)),
        model(fields_of(to_onnx(graph, description,
                                [](const TensorSlot& slot) {
                                  return std::vector<float>(static_cast<std::size_t>(slot.count.value), 0.5F);
                                }))),
        onnx(fields_of(model.text(7))) {}
};

ModelDescription example_of(const std::string& name) {
  return {.model = name, .data = Models().example(name), .class_names = {}};
}

TEST(Onnx, HasAllTensorsAndNothingThatIsReadBeforeItIsMade) {
  for (const Models models; const std::string_view name : models.names()) {
    const Exported exported(example_of(std::string(name)));
    std::set<std::string> known{""};  // an input that is left out
    std::map<std::string, std::vector<std::int64_t>> tensors;
    for (const std::string& tensor : exported.onnx.all(5)) {
      const Fields proto = fields_of(tensor);
      tensors[proto.text(8)] = proto.integers(1);
      EXPECT_TRUE(known.insert(proto.text(8)).second) << name << ' ' << proto.text(8);
    }
    const std::vector<bool> is_run = exported.graph.contributes_to_evaluation();  // without auxiliary heads
    for (std::size_t n = 0; n < is_run.size(); ++n) {
      const Node& node = exported.graph.nodes()[n];
      const auto expect = [&](const TensorSlot& slot) {
        EXPECT_EQ(tensors.contains(slot.name), is_run[n]) << slot.name;
        if (!is_run[n]) return;
        EXPECT_EQ(tensors[slot.name], slot.shape) << slot.name;
      };
      for (const int parameter : node.parameters) expect(exported.graph.parameters().at(parameter));
      for (const int state : node.state) expect(exported.graph.state().at(state));
    }
    for (const std::string& input : exported.onnx.all(11)) known.insert(fields_of(input).text(1));
    for (const std::string& node : exported.onnx.all(1)) {
      const Fields proto = fields_of(node);
      for (const std::string& input : proto.all(1)) EXPECT_TRUE(known.contains(input)) << name << ' ' << input;
      EXPECT_TRUE(known.insert(proto.text(2)).second) << name << ' ' << proto.text(2);
    }
    for (const std::string& output : exported.onnx.all(12)) EXPECT_TRUE(known.contains(fields_of(output).text(1)));
  }
}

TEST(Onnx, HasTheNamesOfTheModelAndAFreeBatch) {
  for (const char* name : {"lenet", "resnet20", "mobilenet-v2"}) {
    const Exported exported(example_of(name));
    const std::vector<std::string> inputs = exported.onnx.all(11);
    ASSERT_EQ(inputs.size(), 1U) << "labels are for the loss";
    EXPECT_EQ(fields_of(inputs[0]).text(1), "images");
    const Models models;
    const auto& [channels, height, width] = models.example(name).at("images").extent;
    EXPECT_EQ(extents_of(fields_of(inputs[0])),
              "batch×" + std::to_string(channels) + "×" + std::to_string(height) + "×" + std::to_string(width));
    const std::vector<std::string> outputs = exported.onnx.all(12);
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_EQ(fields_of(outputs[0]).text(1), "logits");
    EXPECT_EQ(extents_of(fields_of(outputs[0])), "batch×10") << name;
  }
}

TEST(Onnx, NormalizesAndSaysOfWhichModelItIs) {
  ModelDescription description = example_of("resnet20");
  description.class_names = {"cat", "dog"};
  description.images = Normalization{{0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}};
  const Exported exported(description);
  Metadata metadata;
  for (const std::string& entry : exported.model.all(14)) metadata[fields_of(entry).text(1)] = fields_of(entry).text(2);
  EXPECT_EQ(metadata, to_metadata(description));
  const std::vector<std::string> nodes = exported.onnx.all(1);
  EXPECT_EQ(fields_of(nodes.at(0)).text(4), "Sub");
  EXPECT_EQ(fields_of(nodes.at(1)).text(4), "Div");
  EXPECT_EQ(fields_of(nodes.at(2)).text(1), "images.normalized");
}

TEST(Onnx, RefusesALayerThatItLacksByName) {
  const DataSpec data = DataSpec::of_images(3, 2, 2, 4);
  Graph graph("own");
  graph.input(data.at("images"));
  graph.add("gelu", Pointwise{.kind = Pointwise::Kind::gelu});
  graph.add("fc", Linear{.out_features = 4});
  classify(graph, data);
  const auto no_weights = [](const TensorSlot& /*slot*/) { return std::vector<float>(); };
  expect_error([&] { (void)to_onnx(graph, {.model = "own", .data = data, .class_names = {}}, no_weights); },
               ErrorCode::unsupported, {"layer 'gelu' of the model 'own' (GELU)"});
}

/// Gates are in ONNX's order, and lengths a number for each sample.
TEST(Onnx, HasLstmsWithLengthsAndWithout) {
  const Exported with(example_of("crnn"));
  const std::vector<std::string> inputs = with.onnx.all(11);
  ASSERT_EQ(inputs.size(), 2U) << "images and steps";
  const Fields steps = fields_of(inputs[1]);
  EXPECT_EQ(steps.text(1), "steps");
  const Fields tensor = fields_of(fields_of(steps.text(2)).text(1));
  EXPECT_EQ(tensor.integers(1), std::vector<std::int64_t>{6}) << "int32";
  const std::vector<std::string> dims = fields_of(tensor.text(2)).all(1);
  ASSERT_EQ(dims.size(), 1U);
  EXPECT_EQ(fields_of(dims[0]).text(2), "batch");
  const auto lstms = [](const Fields& onnx) {
    std::vector<std::vector<std::string>> of_each;
    for (const std::string& node : onnx.all(1))
      if (fields_of(node).text(4) == "LSTM") of_each.push_back(fields_of(node).all(1));
    return of_each;
  };
  ASSERT_EQ(lstms(with.onnx).size(), 1U);
  EXPECT_EQ(lstms(with.onnx)[0], (std::vector<std::string>{"lstm.sequence", "lstm.W", "lstm.R", "lstm.B", "steps"}));
  const Exported without(example_of("crnn-mv3"));
  EXPECT_EQ(without.onnx.all(11).size(), 1U);
  ASSERT_EQ(lstms(without.onnx).size(), 2U);
  EXPECT_EQ(lstms(without.onnx)[1].size(), 4U);
  const std::vector<std::string> outputs = without.onnx.all(12);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(extents_of(fields_of(outputs[0])), "batch×5×5") << "steps × classes";
}

/// Nodes that only outputs need are exported, and an output can have a name and an order of its own.
TEST(Onnx, GivesDetectionsAsRowsOfTheNameThatTheModelSays) {
  Graph graph("boxes");
  graph.input({"images", {3, 2, 4}});
  graph.add("head", Convolution{.out_channels = 14, .kernel = 1});
  const int decoded = graph.add("decode", AnchorDecode{.anchors = {{10, 13}, {16, 30}}});
  graph.output("detections", decoded, {.name = "output0", .channels_last = true});
  const ModelDescription description{.model = "boxes", .data = DataSpec::of_images(3, 2, 4, 2), .class_names = {}};
  const std::string bytes = to_onnx(graph, description, [](const TensorSlot& slot) {
    return std::vector<float>(static_cast<std::size_t>(slot.count.value), 0.5F);
  });
  const Fields onnx = fields_of(fields_of(bytes).text(7));
  const std::vector<std::string> outputs = onnx.all(12);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(fields_of(outputs[0]).text(1), "output0");
  EXPECT_EQ(extents_of(fields_of(outputs[0])), "batch×16×7");
  std::string operators;
  std::set<std::string> names;
  for (const std::string& tensor : onnx.all(5)) EXPECT_TRUE(names.insert(fields_of(tensor).text(8)).second);
  for (const std::string& node : onnx.all(1)) {
    operators += fields_of(node).text(4) + ' ';
    EXPECT_TRUE(names.insert(fields_of(node).text(2)).second) << fields_of(node).text(2);
  }
  EXPECT_EQ(operators,
            "Conv Sigmoid Reshape Slice Mul Add Slice Mul Mul Slice Concat Transpose Reshape Reshape Transpose ");
}

/// A pool whose windows have several sizes, a gate, and layers behind a linear one.
TEST(Onnx, KeepsMatricesWhereAllThatReadThemCan) {
  Graph graph("own");
  graph.input({"images", {3, 7, 5}});
  const int pooled = graph.add("pool", AdaptiveAveragePool{.height = 3, .width = 2});
  graph.add("fc1", Linear{.out_features = 6});
  graph.add("relu", Relu{});
  const int gate = graph.add("fc2", Linear{.out_features = 3});
  graph.add("gated", Multiply{}, {pooled, gate});
  graph.add("fc3", Linear{.out_features = 4, .activation = Activation::relu});
  classify(graph, DataSpec::of_images(3, 7, 5, 4));
  const ModelDescription description{.model = "own", .data = DataSpec::of_images(3, 7, 5, 4), .class_names = {}};
  const Fields model = fields_of(to_onnx(graph, description, [](const TensorSlot& slot) {
    return std::vector<float>(static_cast<std::size_t>(slot.count.value));
  }));
  std::string ops;
  for (const std::string& node : fields_of(model.text(7)).all(1)) ops += fields_of(node).text(4) + ' ';
  EXPECT_EQ(ops, "MatMul MatMul Flatten Gemm Relu Gemm Reshape Mul Flatten Gemm Relu ");
}

}  // namespace
}  // namespace lockstep::nn
