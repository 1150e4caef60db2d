// SPDX-License-Identifier: Apache-2.0
// trainer_logits MODEL STEM CLASSES WEIGHTS IMAGES RESULT evaluates a classifier of images or pixels in float64. STEM
// is auto, cifar or imagenet, WEIGHTS a file for `train --weights`, IMAGES a safetensors file with a float64 tensor
// "images" of samples, channels, height and width. RESULT receives "logits", of samples × classes, and of pixels ×
// height × width. mpi-scripts/parity/logits.sh compares them with PyTorch's, paddleseg.sh with PaddleSeg's.
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "state/safetensors_file.hpp"
#include "trainer/checkpoint/checkpoint_reading.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {
namespace {

void evaluate(const std::string& model, const std::string& stem, std::int64_t classes, const std::string& weights,
              const std::string& images, const std::string& result) {
  const state::SafetensorsReader reader(images);
  const int index = reader.index_of("images");
  const state::StoredTensor& all = reader.header().tensors()[static_cast<std::size_t>(index)];
  const std::vector<std::int64_t>& extents = all.extents;  // samples, channels, height, width
  auto data = nn::DataSpec::of_images(extents.at(1), extents.at(2), extents.at(3), classes);
  const bool of_pixels = nn::Models().workload(model) == "segmentation";
  if (of_pixels) data.tensors.back().extent = {1, extents.at(2), extents.at(3)};
  if (stem != "auto") data.stem = stem == "cifar" ? nn::Stem::cifar : nn::Stem::imagenet;
  const nn::Graph graph = nn::make_model(model, data);
  const auto ops = ops::make_reference_ops();
  std::vector<ProcessGroup> group = ProcessGroup::of_threads(1);
  TrainerOptions options;
  options.precision = DType::float64;
  Replica replica(group[0], *ops, graph, {data.tensors}, options, nullptr);
  (void)load_weights(group[0], weights, replica.store(), WeightsMatch::strict);

  const std::int64_t elements = all.count().value / extents[0];
  std::vector<double> image(static_cast<std::size_t>(elements));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(data.at("labels").elements()));  // only the loss reads them
  std::vector<double> found;
  for (std::int64_t sample = 0; sample < extents[0]; ++sample) {
    reader.read(index, {sample * elements}, Buffer(image));
    std::vector<Buffer> tensors;
    for (const TensorSpec& spec : data.tensors)
      tensors.push_back(spec.content == Content::real ? Buffer(image) : Buffer(labels));
    const Buffer logits = replica.predict({.samples = {1}, .step_samples = {1}, .tensors = tensors}).outputs.front();
    const auto* first = static_cast<const double*>(logits.data);
    found.insert(found.end(), first, first + logits.count.value);
  }
  std::vector<std::int64_t> of_logits{extents[0], classes};
  if (of_pixels) of_logits.insert(of_logits.end(), extents.begin() + 2, extents.end());
  const auto header = state::SafetensorsHeader::of({{.name = "logits", .dtype = DType::float64, .extents = of_logits}});
  state::SafetensorsWriter::create(result, header);
  (void)state::SafetensorsWriter(result, header).write(0, {0}, Buffer(found));
  group[0].close();
}

}  // namespace
}  // namespace lockstep::trainer

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "usage: trainer_logits MODEL STEM CLASSES WEIGHTS IMAGES RESULT\n";
    return 2;
  }
  try {
    lockstep::trainer::evaluate(argv[1], argv[2], std::stoll(argv[3]), argv[4], argv[5], argv[6]);
  } catch (const std::exception& error) {
    std::cerr << "trainer_logits: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
