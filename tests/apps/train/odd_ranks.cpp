// SPDX-License-Identifier: Apache-2.0
// A program of one's own by lockstep::train, in which ranks are not alike: with --dataset stalls, rank 1 takes 200 ms
// longer for each backward pass, and rank 2 takes 150 ms for each batch. --dataset files reads its numbers from a file
// in --data-dir. With --dataset drawn, the rank whose environment has ODD_SAMPLE gets another value in that sample.
// With
// --model uneven, a convolutional network, rank 1 takes SLOW_FACTOR (1) times as long as the others for each shard, all
// of which sleep BASE_MS (0) milliseconds for each beside what they compute. mpi-scripts/bench/balance.sh uses it, too.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <lockstep/train.hpp>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/machine/launch.hpp"

namespace {

namespace data = lockstep::data;
namespace nn = lockstep::nn;
namespace ops = lockstep::ops;
using lockstep::Buffer;
using lockstep::Content;

int this_rank() { return lockstep::process_number(lockstep::read_environment()).value_or(0); }

constexpr std::int64_t own_samples = 2;     // of a batch of 6 on three ranks
constexpr std::uint64_t training_seed = 2;  // by --seed; data are hashed with another one

/// A data set of one number a sample.
class Numbers final : public data::Dataset {
 public:
  Numbers(std::vector<float> numbers, std::chrono::milliseconds stall) : numbers_(std::move(numbers)), stall_(stall) {}
  std::string name() const override { return "numbers"; }
  std::vector<lockstep::TensorSpec> tensors() const override {
    return {{"signal", {1, 1, 1}}, {"labels", {1, 1, 1}, Content::integer}};
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(numbers_.size()); }
  std::int64_t classes() const override { return 2; }
  void read(const data::SampleKey& key, std::span<const Buffer> tensors) const override {
    if (key.seed == training_seed) std::this_thread::sleep_for(stall_);
    *static_cast<float*>(tensors[0].data) = numbers_[static_cast<std::size_t>(key.index)];
    *static_cast<std::int32_t*>(tensors[1].data) = static_cast<std::int32_t>(key.index % 2);
  }

 private:
  std::vector<float> numbers_;
  std::chrono::milliseconds stall_;
};

/// Returns the processor time of this thread.
std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// An operator that copies, and whose backward pass takes its time: as if all that this rank computes from forward to
/// backward, and a sleep, took `factor` times as long.
class Slow final : public ops::CustomOperator {
 public:
  explicit Slow(std::chrono::milliseconds sleep, double factor = 1) : sleep_(sleep), factor_(factor) {}
  ops::Signature signature(std::span<const ops::Shape> inputs) const override { return {.output = inputs[0]}; }
  std::string text() const override { return "slow"; }
  std::unique_ptr<ops::Kernel> make(std::span<const ops::Format> inputs) const override {
    return std::make_unique<Copy>(inputs[0], sleep_, factor_);
  }

 private:
  class Copy final : public ops::Kernel {
   public:
    Copy(const ops::Format& in, std::chrono::milliseconds sleep, double factor)
        : Kernel({.inputs = {in}, .output = in}), count_(in.shape.count()), sleep_(sleep), factor_(factor) {}

   private:
    static void copy(const void* from, void* to, std::int64_t count) {
      for (std::int64_t i = 0; to != nullptr && i < count; ++i)
        static_cast<float*>(to)[i] = static_cast<const float*>(from)[i];
    }
    void forward(const ops::Arguments& call) override {
      begin_ = processor_time();
      copy(call.inputs[0], call.output, count_);
    }
    void backward(const ops::Arguments& call) override {
      std::this_thread::sleep_for(factor_ * sleep_ + (factor_ - 1) * (processor_time() - begin_));
      copy(call.output_gradient, call.input_gradients[0], count_);
    }
    std::int64_t count_;
    std::chrono::milliseconds sleep_;
    double factor_;
    std::chrono::nanoseconds begin_{};
  };
  std::chrono::milliseconds sleep_;
  double factor_;
};

nn::Graph make_model(const nn::DataSpec& spec, std::chrono::milliseconds backward) {
  nn::Graph graph("model");
  graph.input(spec.at("signal"));
  graph.add("first", nn::Linear{.out_features = 4});
  graph.add("slow", nn::Custom{std::make_shared<Slow>(backward)});
  graph.add("fc", nn::Linear{.out_features = spec.classes});
  nn::classify(graph, spec);
  return graph;
}

double number_of(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stod(text);
}

nn::Graph make_uneven(const nn::DataSpec& spec) {
  const double factor = this_rank() == 1 ? number_of("SLOW_FACTOR", 1) : 1;
  const std::chrono::milliseconds sleep(static_cast<std::int64_t>(number_of("BASE_MS", 0)));
  nn::Graph graph("uneven");
  graph.input(spec.at("images"));
  graph.add("conv1", nn::Convolution{.out_channels = 4, .padding = 1});
  graph.add("slow", nn::Custom{std::make_shared<Slow>(sleep, factor)});
  graph.add("relu1", nn::Relu{});
  graph.add("conv2", nn::Convolution{.out_channels = 16, .padding = 1, .bias = false});
  graph.add("norm2", nn::BatchNorm{});
  graph.add("relu2", nn::Relu{});
  graph.add("pool2", nn::MaxPool{});
  graph.add("conv3", nn::Convolution{.out_channels = 32, .padding = 1, .bias = false});
  graph.add("norm3", nn::BatchNorm{});
  graph.add("relu3", nn::Relu{});
  graph.add("pool3", nn::MaxPool{});
  graph.add("fc", nn::Linear{.out_features = spec.classes});
  nn::classify(graph, spec);
  return graph;
}

data::DatasetPair pair_of(std::vector<float> numbers, std::chrono::milliseconds stall = {}) {
  return {std::make_shared<Numbers>(std::move(numbers), stall),
          std::make_shared<Numbers>(std::vector<float>{1, 2}, std::chrono::milliseconds(0))};
}

data::DatasetPair load_stalls(const data::DatasetOptions& /*options*/) {
  const std::chrono::milliseconds of_batch(this_rank() == 2 ? 150 : 0);
  return pair_of(std::vector<float>(600, 1), of_batch / own_samples);
}

data::DatasetPair load_files(const data::DatasetOptions& options) {
  std::ifstream file(options.data_dir / "numbers", std::ios::binary);
  std::vector<float> numbers;
  for (std::istreambuf_iterator<char> at(file); at != std::istreambuf_iterator<char>(); ++at)
    numbers.push_back(static_cast<float>(*at));
  return pair_of(std::move(numbers));
}

data::DatasetPair load_drawn(const data::DatasetOptions& /*options*/) {
  std::vector<float> numbers(600, 1);
  if (const char* sample = std::getenv("ODD_SAMPLE"); sample != nullptr) numbers.at(std::stoul(sample)) = 2;
  return pair_of(std::move(numbers));
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Registry registry;
  registry.models.add({.name = "slow", .make = [](const nn::DataSpec& spec) {
                         return make_model(spec, std::chrono::milliseconds(this_rank() == 1 ? 200 : 0));
                       }});
  registry.models.add({.name = "fast", .make = [](const nn::DataSpec& spec) {
                         return make_model(spec, std::chrono::milliseconds(0));
                       }});
  registry.models.add({.name = "uneven", .make = make_uneven});
  registry.models.add({.name = "stray",
                       .make = [](const nn::DataSpec& spec) { return make_model(spec, std::chrono::milliseconds(0)); },
                       .workload = "classing"});
  registry.datasets.add({.name = "stalls", .load = load_stalls});
  registry.datasets.add({.name = "files", .load = load_files});
  registry.datasets.add({.name = "drawn", .load = load_drawn, .directory = data::Directory::none});
  registry.model = "fast";
  registry.dataset = "drawn";
  return lockstep::train_main(argc, argv, registry);
}
