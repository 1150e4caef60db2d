// SPDX-License-Identifier: Apache-2.0
// Tests what a checkpoint says of its model, and lockstep-export, which makes a file of it for other programs.
#include <filesystem>
#include <string>

#include "apps/train/train_program.hpp"
#include "lockstep/mpi/world.hpp"
#include "nn/description/description.hpp"
#include "state/safetensors_file.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

class Export : public testing::Test {
 protected:
  /// Trains a step. @return the output
  std::string train(const std::string& model) {
    const auto result = run_train(2, digits_.arguments() + " --batch 12 --steps 1 --eval-interval never --save-dir " +
                                         folder() + " --model " + model);
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    return result.output;
  }
  /// Runs lockstep-export.
  [[nodiscard]] static ProgramResult export_of(const std::string& arguments) {
    return testing_support::run_program(std::string(LOCKSTEP_EXPORT) + ' ' + arguments + " 2>&1");
  }
  [[nodiscard]] nn::Metadata metadata() const {
    return state::SafetensorsReader(checkpoint() / "model.safetensors").header().metadata();
  }
  [[nodiscard]] std::string folder() const { return digits_.path("run"); }
  [[nodiscard]] fs::path checkpoint() const { return digits_.file("run") / "checkpoints/last"; }
  [[nodiscard]] std::string onnx() const { return digits_.path("model.onnx"); }
  static void expect_error(const ProgramResult& result, int exit_code, const std::string& part) {
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    EXPECT_EQ(occurrences(result.output, "lockstep-export: "), 1) << result.output;
    EXPECT_EQ(occurrences(testing_support::in_one_line(result.output), part), 1) << part << '\n' << result.output;
  }

  SmallDigits digits_;
};

TEST_F(Export, ACheckpointSaysOfWhichModelItIs) {
  train("resnet20");
  const auto description = nn::description_of(metadata(), "model.safetensors");
  ASSERT_TRUE(description.has_value());
  EXPECT_EQ(description->model, "resnet20");
  EXPECT_EQ(description->data.tensors, nn::DataSpec::of_images(1, 8, 8, 10).tensors);
  EXPECT_EQ(description->data.classes, 10);
  ASSERT_TRUE(description->images.has_value()) << "which every prediction needs";
  EXPECT_GT(description->images->mean.at(0), 0);
  EXPECT_GT(description->images->deviation.at(0), 0);
}

TEST_F(Export, MakesAFileOfARunACheckpointAndAFile) {
  train("lenet");
  std::string first;
  for (const std::string& run : {folder(), checkpoint().string(), (checkpoint() / "model.safetensors").string()}) {
    const auto result = export_of(run + " --onnx " + onnx());
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    EXPECT_EQ(occurrences(result.output, onnx() + ": lenet of "), 1) << result.output;
    const std::string bytes = data::read_all(onnx());
    EXPECT_EQ(occurrences(bytes, "lockstep.deviation"), 1);
    EXPECT_GT(bytes.size(), fs::file_size(checkpoint() / "model.safetensors") - 2000) << "all weights in float32";
    EXPECT_EQ(bytes, first.empty() ? bytes : first);
    first = bytes;
  }
}

TEST_F(Export, SaysWhatIsWrong) {
  train("lenet");
  expect_error(export_of("--onnx " + onnx()), exit_usage, "lockstep-export RUN --onnx FILE");
  expect_error(export_of(folder() + "x --onnx " + onnx()), exit_error, folder() + "x");
  expect_error(export_of(folder() + " --onnx " + digits_.path("none/model.onnx")), exit_error, "No such file");
  const fs::path weights = digits_.file("weights.safetensors");
  const auto header = state::SafetensorsHeader::of({{.name = "conv1.weight", .extents = {1}}});
  state::SafetensorsWriter::create(weights, header);
  expect_error(export_of(weights.string() + " --onnx " + onnx()), exit_error, "does not say of which model it is");
  fs::remove(weights);
  state::SafetensorsWriter::create(
      weights, state::SafetensorsHeader::of({{.name = "conv1.weight", .extents = {1}}}, metadata()));
  expect_error(export_of(weights.string() + " --onnx " + onnx()), exit_error,
               "has another form of the tensor 'conv1.weight' [32, 1, 3, 3]");
  EXPECT_FALSE(fs::exists(onnx())) << "nothing is written";
}

/// Both stems of this model have the same tensors, so nothing else would tell them apart.
TEST_F(Export, ARunIsResumedWithItsStem) {
  train("mobilenet-v2 --stem imagenet");
  EXPECT_EQ(nn::description_of(metadata(), "")->data.stem, nn::Stem::imagenet);
  const std::string resume = "--resume " + folder() + " --steps 2 --save-dir " + digits_.path("other");
  expect_refused(run_train(2, resume + " --stem auto"), exit_error,
                 {"model mobilenet-v2 with the stem of imagenet, this run mobilenet-v2"});
  const auto resumed = run_train(1, resume);
  EXPECT_EQ(resumed.exit_code, exit_success) << resumed.output;
}

}  // namespace
}  // namespace lockstep::train
