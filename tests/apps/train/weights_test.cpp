// SPDX-License-Identifier: Apache-2.0
// Tests runs that begin with the weights of a file, and evaluations of weights without training.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "lockstep/mpi/world.hpp"
#include "state/safetensors_file.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// Returns the accuracy and the loss in the output of --eval-only, or the accuracy of a run.
std::string line_with(const std::string& output, const std::string& pattern) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(output, found, std::regex(pattern))) << pattern << '\n' << output;
  return found.str();
}

/// A tensor in a file that a test writes.
struct NamedFloats {
  std::string name;
  std::vector<std::int64_t> extents;
  std::vector<float> values;
};

std::vector<NamedFloats> tensors_of(const fs::path& path) {
  const state::SafetensorsReader reader(path);
  std::vector<NamedFloats> tensors;
  for (const state::StoredTensor& tensor : reader.header().tensors()) {
    NamedFloats& read = tensors.emplace_back(NamedFloats{tensor.name, tensor.extents, {}});
    read.values.resize(static_cast<std::size_t>(tensor.count().value));
    reader.read(reader.index_of(tensor.name), {0}, Buffer(read.values));
  }
  return tensors;
}

void write_tensors(const fs::path& path, std::vector<NamedFloats> tensors) {
  std::vector<state::StoredTensor> stored;
  for (NamedFloats& tensor : tensors)
    stored.push_back({.name = tensor.name, .dtype = DType::float32, .extents = tensor.extents});
  const auto header = state::SafetensorsHeader::of(stored);
  state::SafetensorsWriter::create(path, header);
  const state::SafetensorsWriter writer(path, header);
  for (NamedFloats& tensor : tensors) (void)writer.write(header.index_of(tensor.name), {0}, Buffer(tensor.values));
}

/// Adds a tensor to a file, at its end.
void add_tensor(const fs::path& path, const std::string& name, const std::string& dtype, std::size_t bytes) {
  const std::string file = data::read_all(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::size_t begin = sizeof length + length;
  const std::size_t end = file.size() - begin;
  const std::string header = "{\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[1," + std::to_string(bytes) +
                             "],\"data_offsets\":[" + std::to_string(end) + "," + std::to_string(end + bytes) + "]}," +
                             file.substr(sizeof length + 1, length - 1);
  length = header.size();
  std::string whole(reinterpret_cast<const char*>(&length), sizeof length);
  data::write_plain(path, whole + header + file.substr(begin) + std::string(bytes, '\1'));
}

class Weights : public testing::Test {
 protected:
  /// Trains one epoch with batch norm and EMA. @return the output
  std::string train(const std::string& arguments = {}) {
    fs::remove_all(digits_.file("run"));
    const auto result = run_train(2, options() + " --ema 0.5 --save-dir " + folder() + arguments);
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    return result.output;
  }
  [[nodiscard]] std::string options() const { return digits_.arguments() + " --model resnet20 --batch 12 --epochs 1"; }
  /// Options of an evaluation.
  [[nodiscard]] std::string evaluation() const {
    return digits_.arguments() + " --model resnet20 --batch 12 --eval-only";
  }
  [[nodiscard]] std::string folder() const { return digits_.path("run"); }
  [[nodiscard]] fs::path model() const { return digits_.file("run") / "checkpoints/last/model.safetensors"; }

  SmallDigits digits_;
};

TEST_F(Weights, AreEvaluatedOnAnyNumberOfRanksAsTheRunEvaluatedThem) {
  const std::string accuracy = line_with(train(), "test accuracy [0-9.]+ %");
  const auto before = fs::last_write_time(digits_.file("run") / "checkpoints");
  std::vector<std::string> results;
  for (const std::string& weights : {"--weights " + model().string(), "--resume last --save-dir " + folder(),
                                     "--config " + folder() + "/options.conf --resume " + folder()}) {
    for (const int ranks : {1, 3}) {
      const auto result =
          run_train(ranks, evaluation() + " --metrics " + digits_.path("evaluation.jsonl") + ' ' + weights);
      EXPECT_EQ(result.exit_code, exit_success) << result.output;
      results.push_back(line_with(result.output, "test accuracy .*"));
      EXPECT_EQ(results.back(), results.front());
      EXPECT_NE(results.back().find(accuracy), std::string::npos) << results.back() << " is not " << accuracy;
      EXPECT_EQ(occurrences(result.output, "weights from "), 1) << result.output;
      EXPECT_EQ(read_metrics(digits_.path("evaluation.jsonl")).back().at("steps"), 0);
    }
  }
  fs::copy_file(model(), digits_.file("copy.safetensors"));
  for (const std::string& arguments :
       {"--eval-only --resume " + folder() + "/checkpoints/last/", "--eval-only --weights " + model().string(),
        digits_.arguments() + " --model resnet20 --eval-only --weights " + digits_.path("copy.safetensors")}) {
    const auto result = run_train(2, arguments);
    EXPECT_EQ(result.exit_code, exit_success) << result.output;
    EXPECT_EQ(line_with(result.output, "test accuracy .*"), results.front())
        << "the options are those of the run, and a batch that nobody typed refuses no small data set";
  }
  EXPECT_EQ(fs::last_write_time(digits_.file("run") / "checkpoints"), before) << "nothing is written there";
}

TEST_F(Weights, ARunIsResumedByItsFolderAlone) {
  train();
  const auto resumed = run_train(3, "--resume " + folder() + " --epochs 2 --save-dir " + digits_.path("other"));
  EXPECT_EQ(resumed.exit_code, exit_success) << resumed.output;
  for (const std::string& part :
       {std::string("resnet20 on mnist (96 training"), "options that are not given are those of " + folder(),
        std::string("changed since: --epochs 1, now 2")})
    EXPECT_EQ(occurrences(testing_support::in_one_line(resumed.output), part), 1) << part << resumed.output;
  fs::remove(digits_.file("run") / "options.conf");
  expect_refused(run_train(2, "--eval-only --resume " + folder()), exit_usage, {"there is no options.conf"});
}

TEST_F(Weights, ATrainingRunBeginsWithThemAndFrozenOnesStay) {
  train();
  const fs::path first = digits_.file("first.safetensors");
  fs::copy_file(model(), first);
  const std::string arguments =
      options() + " --seed 9 --weights " + first.string() + " --freeze conv1,layer1.0 --save-dir " + folder();
  fs::remove_all(digits_.file("run"));
  const auto result = run_train(3, arguments);
  EXPECT_EQ(result.exit_code, exit_success) << result.output;
  const auto before = tensors_of(first);
  const auto after = tensors_of(model());
  ASSERT_EQ(before.size(), after.size());
  int frozen = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool is_frozen = (before[i].name == "conv1.weight" || before[i].name.starts_with("layer1.0.")) &&
                           before[i].name.find("running") == std::string::npos;
    frozen += is_frozen ? 1 : 0;
    EXPECT_EQ(before[i].values == after[i].values, is_frozen) << before[i].name;
  }
  EXPECT_EQ(frozen, 7);
  const std::string configuration = "--config " + folder() + "/options.conf --resume " + folder();
  fs::remove(first);
  const auto resumed = run_train(2, configuration + " --epochs 2");
  EXPECT_EQ(resumed.exit_code, exit_success) << "the checkpoint has its own weights\n" << resumed.output;
  EXPECT_EQ(occurrences(resumed.output, "weights from "), 0) << resumed.output;
  expect_refused(run_train(1, configuration + " --weights " + first.string()), exit_usage,
                 {"--weights beside --resume " + folder()});
}

TEST_F(Weights, AWrongPathLeavesNoFolderBehind) {
  expect_refused(run_train(2, options() + " --save-dir " + folder() + " --weights " + digits_.path("none")), exit_error,
                 {"cannot read '" + digits_.path("none") + "': No such file"});
  fs::create_directory(digits_.file("folder"));
  expect_refused(run_train(2, options() + " --save-dir " + folder() + " --weights " + digits_.path("folder")),
                 exit_error, {"Is a directory; give the path of a file in it"});
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(Weights, ThatDoNotFitAreRefusedByNameAndThoseThatFitAreLoadedIfAsked) {
  train();
  std::vector<NamedFloats> tensors = tensors_of(model());
  for (NamedFloats& tensor : tensors) {
    if (!tensor.name.starts_with("fc.")) continue;
    tensor.extents[0] = 100;
    tensor.values.resize(tensor.values.size() * 10);
  }
  tensors.push_back({"bn1.num_batches_tracked", {}, {7}});
  tensors.push_back({"head.weight", {2, 3}, std::vector<float>(6)});
  const std::string path = digits_.path("other.safetensors");
  write_tensors(path, tensors);
  expect_refused(run_train(3, options() + " --weights " + path), exit_error,
                 {"'" + path + "' do not fit the model resnet20", "its 'fc.weight' is [100, 64], the model's [10, 64]",
                  "its 'fc.bias' is [100], the model's [10]", "its 'head.weight' [2, 3] is not in the model",
                  "--partial-weights"});
  const auto partial = run_train(2, options() + " --partial-weights --weights " + path);
  EXPECT_EQ(partial.exit_code, exit_success) << partial.output;
  const std::string text = testing_support::in_one_line(partial.output);
  const std::string of_all =
      std::to_string(tensors.size() - 4) + " of the model's " + std::to_string(tensors.size() - 2);
  for (const std::string& part :
       {"weights from " + path + ": " + of_all + " tensors", std::string("fc.weight [100,64] [10,64] drawn by --seed"),
        std::string("fc.bias [100] [10] drawn by --seed"), std::string("head.weight [2,3] - not used"),
        std::string("loaded: conv1 (1) bn1 (4) layer1 (30) layer2 (35) layer3 (35)")})
    EXPECT_EQ(occurrences(text, part), 1) << part << '\n' << partial.output;
}

TEST_F(Weights, AHeadForOtherClassesIsDrawnAnewAndReported) {
  train();
  std::vector<NamedFloats> tensors = tensors_of(model());
  for (NamedFloats& tensor : tensors) {
    if (!tensor.name.starts_with("fc.")) continue;
    tensor.extents[0] = 100;
    tensor.values.resize(tensor.values.size() * 10);
  }
  const std::string path = digits_.path("other.safetensors");
  write_tensors(path, tensors);
  const auto run = [&](int ranks, const std::string& more) {
    fs::remove_all(digits_.file("run"));
    return run_train(ranks, options() + " --steps 1 --lr 1e-30 --save-dir " + folder() + " --weights " + path + more);
  };
  const auto loaded = run(2, "");
  EXPECT_EQ(loaded.exit_code, exit_success) << loaded.output;
  const std::string text = testing_support::in_one_line(loaded.output);
  const std::string all = std::to_string(tensors.size());
  for (const std::string& part :
       {"weights from " + path + ": " + std::to_string(tensors.size() - 2) + " of the model's " + all +
            " tensors; the head is for another number of classes and is drawn anew",
        std::string("fc.weight [100,64] [10,64] drawn by --seed"), std::string("fc.bias [100] [10] drawn by --seed")})
    EXPECT_EQ(occurrences(text, part), 1) << part << '\n' << loaded.output;
  const std::vector<NamedFloats> after = tensors_of(model());
  const auto last =
      std::ranges::find(tensors, std::string("layer3.2.conv2.weight"), [](const auto& tensor) { return tensor.name; });
  ASSERT_NE(last, tensors.end());
  EXPECT_EQ(after.at(static_cast<std::size_t>(last - tensors.begin())).values, last->values) << "it is loaded";
  expect_refused(run_train(2, evaluation() + " --weights " + path), exit_error, {"its 'fc.bias' is [100]"});
  std::erase_if(tensors, [](const NamedFloats& tensor) { return tensor.name == "fc.bias"; });
  fs::remove(path);
  write_tensors(path, tensors);
  expect_refused(run(2, ""), exit_error, {"its 'fc.weight' is [100, 64], the model's [10, 64]", "it lacks 'fc.bias'"});
}

TEST_F(Weights, TensorsThatHoldNoWeightsAreLeftOutAndReported) {
  train();
  const fs::path path = digits_.file("more.safetensors");
  fs::copy_file(model(), path);
  for (const std::string dtype : {"BOOL", "U8"}) add_tensor(path, "buffer." + dtype, dtype, 8);
  add_tensor(path, "table", "U64", 8);
  const auto good = run_train(2, evaluation() + " --weights " + path.string());
  EXPECT_EQ(good.exit_code, exit_success) << good.output;
  const std::string text = testing_support::in_one_line(good.output);
  for (const char* part :
       {"buffer.BOOL bool [1, 8] - not used", "buffer.U8 uint8 [1, 8] - not used", "table U64 [1, 8] - not used"})
    EXPECT_EQ(occurrences(text, part), 1) << part << '\n' << good.output;
  fs::remove(path);
  std::vector<NamedFloats> others = tensors_of(model());
  std::erase_if(others, [](const NamedFloats& tensor) { return tensor.name == "fc.bias"; });
  write_tensors(path, others);
  add_tensor(path, "fc.bias", "BOOL", 10);
  expect_refused(run_train(2, evaluation() + " --weights " + path.string()), exit_error,
                 {"its 'fc.bias' is bool [1, 10], the model's has real numbers: save it as float32"});
}

TEST_F(Weights, FromAnotherModelOrNoFileOfTensorsAreRefused) {
  train();
  expect_refused(
      run_train(2, digits_.arguments() + " --model lenet --epochs 1 --batch 12 --partial-weights --weights " +
                       model().string()),
      exit_error,
      {"do not fit the model lenet, not even one tensor: its 'conv1.weight' is [16, 1, 3, 3]",
       "it lacks 'conv1.bias' [32]", "and 104 more"});
  expect_refused(run_train(2, options() + " --weights " + digits_.path("none")), exit_error,
                 {"'" + digits_.path("none") + "'", "No such file"});
  expect_refused(run_train(2, options() + " --weights " + digits_.path("t10k-labels-idx1-ubyte")), exit_error,
                 {digits_.path("t10k-labels-idx1-ubyte")});
}

/// oneDNN's ReLU turns a NaN into 0, so that neither a loss nor an accuracy shows it.
TEST_F(Weights, ThatAreNotFiniteAreRefusedByNameAndNeverSaved) {
  train();
  std::vector<NamedFloats> tensors = tensors_of(model());
  const auto bias = std::find_if(tensors.begin(), tensors.end(),
                                 [](const NamedFloats& tensor) { return tensor.name == "layer1.0.bn1.bias"; });
  ASSERT_NE(bias, tensors.end());
  bias->values[3] = std::numeric_limits<float>::quiet_NaN();
  const std::string path = digits_.path("nan.safetensors");
  write_tensors(path, tensors);
  for (const std::string& arguments : {options(), evaluation()})
    expect_refused(run_train(2, arguments + " --weights " + path), exit_error,
                   {"in '" + path + "', element 3 of the tensor 'layer1.0.bn1.bias' is not finite in float32"});
  fs::remove_all(digits_.file("run"));
  expect_refused(
      run_train(2, options() +
                       " --steps 1 --lr 1e38 --weight-decay 1000 --lr-schedule constant --warmup 0 --save-dir " +
                       folder()),
      exit_error, {"after step 1, the run has numbers that are not finite: '", "It saves no such state"});
  EXPECT_TRUE(fs::is_empty(digits_.file("run") / "checkpoints")) << "neither the best nor the last";
}

TEST_F(Weights, AreForTheFreshStartOfARunThatResumesByItself) {
  train();
  const fs::path first = digits_.file("first.safetensors");
  fs::rename(model(), first);
  fs::remove_all(digits_.file("run"));
  const std::string arguments = options() + " --resume auto --save-dir " + folder() + " --weights " + first.string();
  const auto fresh = run_train(2, arguments);
  EXPECT_EQ(occurrences(fresh.output, "a fresh start"), 1) << fresh.output;
  EXPECT_EQ(occurrences(fresh.output, "weights from " + first.string()), 1) << fresh.output;
  fs::remove(first);
  const auto resumed = run_train(1, arguments);
  EXPECT_EQ(resumed.exit_code, exit_success) << resumed.output;
  EXPECT_EQ(occurrences(resumed.output, "resumed from "), 1) << resumed.output;
}

}  // namespace
}  // namespace lockstep::train
