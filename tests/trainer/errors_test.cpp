// SPDX-License-Identifier: Apache-2.0
// Errors that lockstep/trainer/trainer.hpp promises and that other tests show by their words only.
#include "support/errors.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "data/idx_files.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

constexpr auto invalid = ErrorCode::invalid_argument;

class TrainerErrors : public testing::Test {
 protected:
  void TearDown() override { group_.close(); }
  [[nodiscard]] Trainer make(const TrainerOptions& options = {.batch = {10}}) {
    return {group_, *ops_, graph_, data_, options};
  }
  [[nodiscard]] std::string path(const char* name) const { return (folder_.path() / name).string(); }

  /// Writes a file of one tensor "fc.weight". @param header  its dtype and extents as JSON
  std::string file_of(const std::string& header, std::size_t bytes, char byte = 0) {
    const std::string text = R"({"fc.weight":{)" + header + R"(,"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
    const auto length = static_cast<std::uint64_t>(text.size());
    std::ofstream out(path("weights"), std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << text << std::string(bytes, byte);
    return path("weights");
  }

 private:
  data::TemporaryDirectory folder_;
  ProcessGroup group_ = std::move(ProcessGroup::of_threads(1).front());
  std::unique_ptr<ops::Ops> ops_ = ops::make_reference_ops();
  data::DatasetPair data_ = testing_support::small_digits(40, 10, 4);
  nn::Graph graph_ = [] {
    const nn::DataSpec spec = nn::DataSpec::of_images(1, 4, 4, 10);
    nn::Graph graph("small");
    graph.input(spec.at("images"));
    graph.add("fc", nn::Convolution{.out_channels = 10, .kernel = 4, .bias = false});
    nn::classify(graph, spec);
    return graph;
  }();
};

TEST_F(TrainerErrors, OfTheConstructor) {
  expect_error_on_every_rank([&] { (void)make({.epochs = -3, .batch = {10}}); }, invalid, {"-3"});
  expect_error_on_every_rank([&] { (void)make({.batch = {0}}); }, invalid, {"0"});
  expect_error_on_every_rank([&] { (void)make({.batch = {41}}); }, invalid, {"41", "40"});
}

TEST_F(TrainerErrors, OfSavingCheckpoints) {
  Trainer trainer = make();
  for (const CheckpointOptions& options : std::vector<CheckpointOptions>{{.folder = path("run"), .epochs = -1},
                                                                         {.folder = path("run"), .steps = -1},
                                                                         {.folder = path("run"), .keep = 0}})
    expect_error_on_every_rank([&] { trainer.save_checkpoints(options); }, invalid, {"checkpoints"});
  std::ofstream(path("file")) << "no folder";
  expect_error_on_every_rank([&] { trainer.save_checkpoints({.folder = path("file")}); }, ErrorCode::io, {"file"});
}

TEST_F(TrainerErrors, OfResuming) {
  Trainer trainer = make();
  expect_error_on_every_rank([&] { trainer.resume("last", path("nowhere")); }, ErrorCode::io, {"nowhere"});
  trainer.save_checkpoints({.folder = path("run")});
  trainer.save();
  const std::string state = path("run/checkpoints/last/state.json");
  std::stringstream text;
  text << std::ifstream(state).rdbuf();
  std::string other = text.str();
  std::ofstream(state) << other.replace(other.find("\"version\": 2"), 12, "\"version\": 1");
  expect_error_on_every_rank([&] { trainer.resume("last", path("run")); }, ErrorCode::unsupported, {"state.json"});
  std::ofstream(state) << text.str() << "x";
  expect_error_on_every_rank([&] { trainer.resume("last", path("run")); }, ErrorCode::corrupt, {"state.json"});
}

TEST_F(TrainerErrors, OfLoadingWeights) {
  Trainer trainer = make();
  const auto expect_refused = [&](const std::string& file, ErrorCode code, const std::vector<std::string>& parts) {
    expect_error_on_every_rank([&] { trainer.load_weights(file); }, code, parts);
  };
  expect_refused(path("nowhere"), ErrorCode::io, {"nowhere"});
  std::ofstream(path("text")) << "no file of tensors";
  expect_refused(path("text"), ErrorCode::corrupt, {"text"});
  expect_refused(file_of(R"("dtype":"F32","shape":[10,1,4,4])", 640, '\xff'), ErrorCode::corrupt, {"'fc.weight'"});
  expect_refused(file_of(R"("dtype":"F32","shape":[10,1,4,3])", 480), ErrorCode::mismatch,
                 {"'fc.weight'", "[10, 1, 4, 3]"});
  expect_refused(file_of(R"("dtype":"F8_E4M3","shape":[10,1,4,4])", 160), ErrorCode::mismatch, {"'fc.weight'"});
}

}  // namespace
}  // namespace lockstep::trainer
