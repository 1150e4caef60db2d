// SPDX-License-Identifier: Apache-2.0
// Texts: what networks are taught and what they read.
#include "workloads/text/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/ddp/process_group.hpp"
#include "lockstep/trainer/metric.hpp"
#include "support/errors.hpp"
#include "vision/source/characters.hpp"
#include "workloads/text/found_text.hpp"
#include "workloads/text/text_metric.hpp"
#include "workloads/text/text_task.hpp"

namespace lockstep::workloads {
namespace {

constexpr std::int64_t text_steps = 14;
const std::vector<std::string> text_classes = {"a", "b", "c", "é", " "};
constexpr std::int64_t text_channels = 6;  // with the blank
constexpr std::int64_t most_written = 7;

/// What is written and what is read.
struct Case {
  std::string written;
  std::string read;
};

/// The last one is left out.
const std::vector<Case> text_cases = {{"abc", "abc"}, {"a b", "ab"},    {"abc", "acb"},         {"éé", "é"}, {"a", ""},
                                      {"b", "cccc"},  {"  ", "abcabc"}, {"abcabca", "bcabcab"}, {"ab", "ab"}};
constexpr std::int64_t left_out_case = 8;

class WrittenTexts final : public vision::Source {
 public:
  WrittenTexts() {
    for (const Case& one : text_cases) annotations_.push_back({.text = one.written});
  }
  [[nodiscard]] std::string format() const override { return "texts"; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(annotations_); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return text_classes; }
  [[nodiscard]] const vision::Annotation& annotation(std::int64_t sample) const override {
    return annotations_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return std::to_string(sample); }
  void read(std::int64_t /*sample*/, std::vector<std::byte>& /*bytes*/) const override {}

 private:
  std::vector<vision::Annotation> annotations_;
};

std::vector<TensorSpec> text_tensors() {
  return {{"images", {1, 1, text_steps}, Content::real},
          {"targets", {1, 1, most_written}, Content::integer},
          {"target_lengths", {1, 1, 1}, Content::integer},
          {"steps", {1, 1, 1}, Content::integer}};
}

/// @param blank  0, or the last class
nn::Graph text_graph(std::int32_t blank) {
  nn::Graph graph("reader");
  const std::vector<TensorSpec> tensors = text_tensors();
  graph.input(tensors[0]);
  const int logits = graph.add("head", nn::Convolution{.out_channels = text_channels, .kernel = 1});
  graph.output("logits", logits);
  const int targets = graph.input(tensors[1]);
  const int lengths = graph.input(tensors[2]);
  graph.loss("loss", nn::Ctc{.blank = blank}, {logits, targets, lengths, graph.input(tensors[3])});
  return graph;
}

FoundModel text_model(const nn::Graph& graph, const std::vector<TensorSpec>& tensors) {
  return {.graph = graph, .tensors = tensors, .classes = std::ssize(text_classes), .inputs = {{text_steps, 1}}};
}

/// Logits by which a text is read: each character for one or two steps, with blanks between equal ones.
std::vector<float> logits_for(const std::string& text, std::int32_t blank) {
  const vision::CharacterLabels labels(text_classes);
  std::vector<std::int32_t> path;
  std::int32_t before = -1;
  std::string_view rest = text;
  for (std::string_view one = vision::next_character(rest); !one.empty(); one = vision::next_character(rest)) {
    const std::int32_t label = labels.label(one);
    if (label == before) path.push_back(blank);
    path.push_back(blank == 0 ? label + 1 : label);
    if (path.size() % 3 == 0) path.push_back(path.back());
    before = label;
  }
  path.resize(text_steps, blank);
  std::vector<float> logits(text_channels * text_steps, -1);
  for (std::size_t step = 0; step < path.size(); ++step)
    logits[static_cast<std::size_t>(path[step]) * text_steps + step] = 2;
  return logits;
}

TEST(TextReader, DropsRepetitionsThenBlanksWhereverTheBlankIs) {
  for (const std::int32_t blank : {0, 5}) {
    const nn::Graph graph = text_graph(blank);
    const auto tensors = text_tensors();
    const TextReader reader = TextReader::of(text_model(graph, tensors)).value();
    std::vector<float> logits = logits_for("abba", blank);
    const std::vector<float> second = logits_for("éc", blank);
    logits.insert(logits.end(), second.begin(), second.end());
    const std::array<Buffer, 1> outputs{Buffer(std::span(logits))};
    EXPECT_EQ(text_of(reader.read({.outputs = outputs}, 2, 0).labels, text_classes), "abba");
    const ReadText read = reader.read({.outputs = outputs}, 2, 1);
    EXPECT_EQ(text_of(read.labels, text_classes), "éc");
    EXPECT_NEAR(read.confidence, 1 / (1 + 5 * std::exp(-3.0)), 1e-12);
  }
}

TEST(TextReader, ReadsNothingOfOtherModels) {
  const nn::Graph graph = text_graph(0);
  const auto tensors = text_tensors();
  FoundModel other = text_model(graph, tensors);
  other.classes = 7;
  EXPECT_FALSE(TextReader::of(other));
  expect_error([&] { (void)text_metrics(other, std::make_shared<WrittenTexts>()); }, ErrorCode::invalid_argument,
               {"'reader' has no metrics of texts", "CTC"});
}

/// Evaluates samples, each rank its own, in batches of up to two. @return what each rank has
std::vector<std::vector<observe::MetricValue>> judge(const std::vector<std::vector<std::int64_t>>& shares) {
  const auto source = std::make_shared<const WrittenTexts>();
  const nn::Graph graph = text_graph(0);
  const auto tensors = text_tensors();
  std::vector<ProcessGroup> groups =
      ProcessGroup::of_threads(static_cast<int>(shares.size()), {.wait = {.spins_before_yield = 0}});
  std::vector<std::vector<observe::MetricValue>> values(shares.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto metrics = text_metrics(text_model(graph, tensors), source);
      trainer::Metric& metric = *metrics.back();
      metric.reset();
      for (std::size_t first = 0; first < shares[rank].size(); first += 2) {
        const auto ids = std::span(shares[rank]).subspan(first, std::min<std::size_t>(2, shares[rank].size() - first));
        std::vector<float> logits;
        std::vector<std::int32_t> lengths;
        for (const std::int64_t id : ids) {
          const std::vector<float> one = logits_for(text_cases[static_cast<std::size_t>(id)].read, 0);
          logits.insert(logits.end(), one.begin(), one.end());
          lengths.push_back(id == left_out_case ? 0 : 1);
        }
        const std::array<Buffer, 1> outputs{Buffer(std::span(logits))};
        const std::array<Buffer, 4> batch{Buffer(), Buffer(), Buffer(std::span(lengths)), Buffer()};
        metric.add({.outputs = outputs}, {.samples = {std::ssize(ids)}, .ids = ids, .tensors = batch});
      }
      metric.reduce(groups[rank].control());
      values[rank] = metric.values();
      groups[rank].close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return values;
}

/// rapidfuzz's Levenshtein.normalized_distance of the eight texts without spaces: 0, 0, 2/3, 1/2, 1, 1, 1, 2/7.
TEST(TextMetrics, AreThoseOfRapidfuzzOnAnyRanks) {
  const auto alone = judge({{0, 1, 2, 3, 4, 5, 6, 7, 8}});
  EXPECT_EQ(observe::value_of(alone[0], "accuracy"), 2.0 / 8);
  EXPECT_NEAR(observe::value_of(alone[0], "ned").value(), 0.44345238095238104, 1e-15);
  for (const auto& shares : std::vector<std::vector<std::vector<std::int64_t>>>{{{0, 1, 2}, {3, 4, 5, 6, 7, 8}},
                                                                                {{8, 7, 0}, {}, {6, 5, 4, 3, 2, 1}}})
    for (const auto& of_rank : judge(shares)) EXPECT_EQ(of_rank, alone[0]) << "to the last bit";
}

TEST(EditDistance, IsThatOfRapidfuzz) {
  const auto distance = [](std::string_view a, std::string_view b) {
    const std::vector<std::int32_t> left(a.begin(), a.end());
    const std::vector<std::int32_t> right(b.begin(), b.end());
    EXPECT_EQ(edit_distance(left, right), edit_distance(right, left));
    return edit_distance(left, right);
  };
  EXPECT_EQ(distance("hello", "hello"), 0);
  EXPECT_EQ(distance("hello", "helo"), 1);
  EXPECT_EQ(distance("hello", ""), 5);
  EXPECT_EQ(distance("kitten", "sitting"), 3);
  EXPECT_EQ(distance("caf", "cafe5"), 2);
  EXPECT_EQ(distance("x", "yz"), 2);
}

TEST(CharacterTargets, BeginAtOneAfterTheBlank) {
  const auto collate = character_targets(text_classes, 4);
  EXPECT_EQ(collate->tensors({}, 5)[0].extent, (std::array<std::int64_t, 3>{1, 1, 4}));
  std::array<std::int32_t, 4> targets{9, 9, 9, 9};
  std::int32_t length = 9;
  const std::array<Buffer, 2> tensors = {Buffer(std::span(targets)), Buffer(length)};
  const auto write = [&](const char* text) { collate->write({.text = text}, {}, tensors); };
  write("é?b");
  EXPECT_EQ(targets, (std::array<std::int32_t, 4>{4, 2, 0, 0})) << "an unknown character has no place";
  EXPECT_EQ(length, 2);
  write("abcabc");
  EXPECT_EQ(targets, (std::array<std::int32_t, 4>{1, 2, 3, 1}));
  write("");
  EXPECT_EQ(targets, (std::array<std::int32_t, 4>{}));
  EXPECT_EQ(length, 0);
}

TEST(FoundText, IsWrittenWithItsConfidence) {
  nlohmann::ordered_json object;
  FoundText({.labels = {0, 3}, .confidence = 0.12345678}).add_to(object, text_classes);
  EXPECT_EQ(object.dump(), R"({"text":"aé","confidence":0.123457})");
}

TEST(TextTask, HasTheInputsOfPaddleOcrAndEasyOcrAndRefusesWhatSpoilsLines) {
  const PictureTask task = text();
  const UsualInput color = task.usual_input({"images", {3, 32, 20}});
  EXPECT_EQ(color.channels, 3);
  EXPECT_EQ(vision::text_of(task.pipelines("", color.size, false).training), "line:32x100");
  const UsualInput gray = task.usual_input({"images", {1, 48, 24}});
  EXPECT_EQ(gray.channels, 1);
  EXPECT_EQ(vision::text_of(task.pipelines("hsv", gray.size, false).training), "hsv:0.015,0.7,0.4,line-repeat:64x256");
  for (const char* wrong : {"flip", "mosaic", "resize:32x100", "random-resized-crop"})
    expect_error([&] { (void)text_pipelines(wrong, color.size, false); }, ErrorCode::invalid_argument,
                 {"leaves no line of text that can be read"});
  EXPECT_EQ(task.step_sizes(color.size, 0.5, 1.5), (std::vector<vision::Size>{{64, 32}, {96, 32}, {128, 32}}));
  expect_error([&] { (void)task.step_sizes(color.size, 0.5, 0.7); }, ErrorCode::invalid_argument, {"fewer than two"});
  const WrittenTexts texts;
  expect_error([&] { (void)task.input(texts, {.width = 101, .height = 32}); }, ErrorCode::invalid_argument,
               {"32×101", "multiple of 4"});
}

}  // namespace
}  // namespace lockstep::workloads
