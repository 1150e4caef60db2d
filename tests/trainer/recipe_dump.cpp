// SPDX-License-Identifier: Apache-2.0
// trainer_recipe OUT trains yolov5n with the recipe of YOLOv5 for twenty steps in float64 on drawn boxes, and records
// all that mpi-scripts/parity/parity-pytorch.py needs to do the same in PyTorch.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "nn/drawn_run.hpp"
#include "nn/parity_files.hpp"
#include "trainer/loop/training_run.hpp"

namespace lockstep::trainer {
namespace {

constexpr const char* model_name = "yolov5n";
constexpr std::int64_t all_samples = 12;
constexpr std::int64_t epochs = 5;

class DrawnBoxes final : public data::Dataset {
 public:
  DrawnBoxes() {
    for (std::int64_t i = 0; i < all_samples; ++i)
      samples_.push_back(nn::draw_batch(data_.tensors, data_.classes, 1, 1, i));
  }
  [[nodiscard]] std::string name() const override { return "drawn boxes"; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return data_.tensors; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(samples_); }
  [[nodiscard]] std::int64_t classes() const override { return data_.classes; }
  void read(const data::SampleKey& key, std::span<const Buffer> tensors) const override {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      std::ranges::copy(reals(key.index, i), static_cast<double*>(tensors[i].data));
  }
  [[nodiscard]] const std::vector<float>& reals(std::int64_t sample, std::size_t tensor) const {
    return samples_[static_cast<std::size_t>(sample)][tensor].reals;
  }
  [[nodiscard]] const nn::DataSpec& data() const { return data_; }

 private:
  nn::DataSpec data_ = nn::Models().example(model_name);
  std::vector<std::vector<nn::DrawnTensor>> samples_;
};

/// The recipe with lower rates, because rounding errors grow with them from step to step. An update has up to two
/// steps.
TrainerOptions recipe() {
  return {.precision = DType::float64,
          .epochs = epochs,
          .batch = {3},
          .schedule = {.peak = 2e-4,
                       .decay = nn::Decay::polynomial,
                       .warmup_steps = 8,
                       .final_fraction = 0.01,
                       .steps_per_epoch = all_samples / 3,
                       .warmup_start = 0,
                       .warmup_bias_rate = 2e-3,
                       .warmup_momentum = 0.8},
          .optimizer =
              {.momentum = 0.937, .nesterov = true, .weight_decay = 5e-4, .decay_vectors = false, .bias_rate = true},
          .nominal_batch = 7,
          .step = {.ema = 0.9999, .ema_ramp = 10, .ema_statistics = true, .times_samples = true},
          .eval_interval = 0};
}

nlohmann::json described(const Layout& layout) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorSlot& slot : layout.tensors()) tensors.push_back({{"name", slot.name}, {"shape", slot.shape}});
  return tensors;
}

void write(nn::RawWriter& file, const Buffer& buffer, const Layout& layout) {
  for (const TensorSlot& slot : layout.tensors())
    file.write(static_cast<const double*>(buffer.data) + slot.offset.value, slot.count.value);
}

/// Writes the samples of all steps in their order.
void write_batches(const std::filesystem::path& out, const std::shared_ptr<const DrawnBoxes>& boxes,
                   const ProcessGroup& group, const TrainerOptions& options, const nn::Model& model) {
  data::Prefetcher batches = make_batches(boxes, group, options, model, true, nullptr);
  std::vector<nn::RawWriter> files;
  for (const TensorSpec& spec : boxes->tensors()) files.emplace_back(out / (spec.name + ".bin"));
  for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
    batches.start_epoch(epoch);
    while (const data::Batch* batch = batches.next())
      for (const std::int64_t id : batch->ids)
        for (std::size_t i = 0; i < files.size(); ++i) {
          const std::vector<float>& reals = boxes->reals(id, i);
          files[i].write(reals.data(), std::ssize(reals));
        }
  }
}

void run(const std::filesystem::path& out) {
  std::filesystem::create_directories(out);
  const auto boxes = std::make_shared<const DrawnBoxes>();
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(1);
  const auto ops = ops::make_reference_ops();
  const TrainerOptions options = recipe();
  Trainer trainer(groups[0], *ops, nn::make_model(model_name, boxes->data()), {boxes, boxes}, options);
  const Store& store = trainer.replica().store();
  const nn::Model& model = trainer.replica().model();
  write_batches(out, boxes, groups[0], options, model);
  nn::RawWriter weights(out / "weights.bin");
  write(weights, store.values(), model.parameters());
  trainer.run();
  write(weights, store.values(), model.parameters());
  write(weights, store.averages(), model.parameters());
  const Buffer statistics = store.statistics().part(0);  // the averages stand behind the statistics
  nn::RawWriter state(out / "state.bin");
  const std::int64_t count = model.state().count().value;
  write(state, {statistics.data, {count}, DType::float64}, model.state());
  write(state, {static_cast<double*>(statistics.data) + count, {count}, DType::float64}, model.state());
  (void)nn::RawWriter(out / "losses.bin");
  nlohmann::json inputs = nlohmann::json::array();
  for (const TensorSpec& spec : boxes->tensors())
    inputs.push_back({{"name", spec.name}, {"extent", spec.extent}, {"integer", false}});
  const nlohmann::json index{{"model", model_name},
                             {"precision", "float64"},
                             {"steps", epochs * all_samples / options.batch.value},
                             {"epochs", epochs},
                             {"batch", options.batch.value},
                             {"nominal_batch", options.nominal_batch},
                             {"seed", options.seed},
                             {"inputs", inputs},
                             {"classes", boxes->classes()},
                             {"learning_rate", options.schedule.peak},
                             {"final_fraction", options.schedule.final_fraction},
                             {"warmup_steps", options.schedule.warmup_steps},
                             {"warmup_bias_rate", *options.schedule.warmup_bias_rate},
                             {"warmup_momentum", *options.schedule.warmup_momentum},
                             {"momentum", options.optimizer.momentum},
                             {"weight_decay", options.optimizer.weight_decay},
                             {"ema", options.step.ema},
                             {"ema_ramp", options.step.ema_ramp},
                             {"parameters", described(model.parameters())},
                             {"state", described(model.state())}};
  std::ofstream(out / "index.json") << index.dump(1) << '\n';
  groups[0].close();
}

}  // namespace
}  // namespace lockstep::trainer

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw lockstep::Error(lockstep::ErrorCode::invalid_argument, "give the folder to write to");
    lockstep::trainer::run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "trainer_recipe: " << error.what() << '\n';
    return 1;
  }
}
