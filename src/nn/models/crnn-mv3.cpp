// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.hpp"
#include "nn/models/mobilenet_v3.hpp"
#include "nn/models/text_layers.hpp"

// Names of tensors are PaddleOCR's, with the two layers of its LSTM as two LSTMs.
namespace lockstep::nn::models {
namespace {

/// PaddleOCR's "rec_mv3_none_bilstm_ctc": MobileNetV3, two bidirectional LSTMs, and a linear layer that scores the
/// characters. Images are 32 pixels high, and a step is 4 pixels wide; those of a width of 100 have 25 steps.
/// @source Shi, Bai, Yao: "An End-to-End Trainable Neural Network for Image-based Sequence Recognition", TPAMI 2017
Graph make_crnn_mv3(const DataSpec& data) {
  Graph graph("crnn-mv3");
  graph.input(data.at("images"));
  if (const std::int64_t height = data.at("images").extent[1]; height != 32) {
    throw Error(ErrorCode::invalid_argument, "model 'crnn-mv3' needs images of 32 rows, not " + std::to_string(height));
  }
  add_mobilenet_v3_for_text(graph);
  graph.add("backbone.pool", MaxPool{});
  add_sequence(graph);
  for (const char* name : {"neck.encoder.lstm.0", "neck.encoder.lstm.1"})
    graph.add(name, Lstm{.hidden = 96, .bidirectional = true});
  read_text(graph, data, "head.fc");
  return graph;
}

}  // namespace

/// Epochs and batch are PaddleOCR's, which trains by Adam: `--optimizer adamw --weight-decay 0 --lr 0.0005
/// --lr-schedule constant --warmup 0`.
std::vector<ModelEntry> crnn_mv3() {
  return {ModelEntry{
      .name = "crnn-mv3",
      .make = make_crnn_mv3,
      .defaults = {.learning_rate = 0.05, .epochs = 72, .batch = 256, .decay = Decay::cosine, .warmup_epochs = 3.6},
      .workload = "text",
      .example = text_example({3, 32, 20})}};
}

}  // namespace lockstep::nn::models
