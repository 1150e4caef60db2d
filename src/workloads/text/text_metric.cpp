// SPDX-License-Identifier: Apache-2.0
#include "workloads/text/text_metric.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/trainer/metric.hpp"
#include "vision/source/characters.hpp"
#include "workloads/text/text_reader.hpp"

namespace lockstep::workloads {
namespace {

class TextMetric final : public trainer::Metric {
 public:
  /// @param lengths    the index among a batch's tensors of the lengths of texts, which are 0 for samples that are left
  ///                   out
  /// @param most_read  most characters that the network can read
  TextMetric(TextReader reader, std::shared_ptr<const vision::Source> source, std::size_t lengths, int most_read)
      : reader_(reader),
        source_(std::move(source)),
        labels_(source_->class_names()),
        space_(labels_.label(" ")),
        lengths_(lengths) {
    std::int64_t longest = most_read;
    for (std::int64_t i = 0; i < source_->size(); ++i)
      longest = std::max(longest, vision::length_of(source_->annotation(i).text));
    counts_.resize(static_cast<std::size_t>(first_distance + longest + 1));
  }

  void reset() override { std::ranges::fill(counts_, 0); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    const auto* lengths = static_cast<const std::int32_t*>(batch.tensors[lengths_].data);
    for (std::int64_t i = 0; i < batch.samples.value; ++i) {
      if (lengths[i] == 0) continue;
      const auto written = labels_of(source_->annotation(batch.ids[static_cast<std::size_t>(i)]).text);
      auto read = reader_.read(prediction, batch.samples.value, i).labels;
      std::erase(read, space_);
      ++counts_[samples_at];
      counts_[correct_at] += read == written ? 1 : 0;
      counts_[first_distance + std::max(read.size(), written.size())] += edit_distance(read, written);
    }
  }
  void reduce(Communicator& communicator) override {
    communicator.all_reduce(std::span(counts_), std::span(counts_), ReduceOp::sum, Queue::host(), "texts").wait();
  }
  [[nodiscard]] std::vector<observe::MetricValue> values() const override {
    double distance = 0;  // the mean one, times the samples
    for (std::size_t length = 1; first_distance + length < counts_.size(); ++length)
      distance += static_cast<double>(counts_[first_distance + length]) / static_cast<double>(length);
    const auto samples = static_cast<double>(std::max<std::int64_t>(counts_[samples_at], 1));
    const double accuracy = static_cast<double>(counts_[correct_at]) / samples;
    const double similarity = counts_[samples_at] == 0 ? 0 : 1 - distance / samples;
    return {{.name = "accuracy", .value = accuracy, .higher_is_better = true, .is_fraction = true},
            {.name = "ned", .value = similarity, .higher_is_better = true, .is_fraction = true}};
  }

 private:
  /// `counts_` has the samples, those without a mistake, and the sums of edit distances by the longer text's length.
  static constexpr std::size_t samples_at = 0;
  static constexpr std::size_t correct_at = 1;
  static constexpr std::size_t first_distance = 2;

  [[nodiscard]] std::vector<std::int32_t> labels_of(std::string_view text) const {
    std::vector<std::int32_t> labels;
    for (std::string_view character = vision::next_character(text); !character.empty();
         character = vision::next_character(text))
      if (const std::int32_t label = labels_.label(character); label != space_) labels.push_back(label);
    return labels;
  }

  TextReader reader_;
  std::shared_ptr<const vision::Source> source_;
  vision::CharacterLabels labels_;
  std::int32_t space_;  // its label; −1: it is none of the characters
  std::size_t lengths_;
  std::vector<std::int64_t> counts_;
};

}  // namespace

std::int64_t edit_distance(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::vector<std::int64_t> row(b.size() + 1);  // distances of the first characters of `a` to those of `b`
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = std::exchange(row[0], static_cast<std::int64_t>(i) + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

trainer::Workload::Metrics text_metrics(const FoundModel& model, std::shared_ptr<const vision::Source> source) {
  const std::optional<TextReader> reader = TextReader::of(model);
  const auto lengths = std::ranges::find(model.tensors, "target_lengths", &TensorSpec::name);
  if (!reader || lengths == model.tensors.end())
    throw Error(ErrorCode::invalid_argument, "model '" + model.graph.name() +
                                                 "' has no metrics of texts: its first loss must be CTC over an output "
                                                 "with a number for the blank and each character at each step");
  int widest = 0;
  for (const vision::Size& input : model.inputs) widest = std::max(widest, input.width);
  trainer::Workload::Metrics metrics = trainer::loss_metrics(model.graph, model.tensors);
  metrics.push_back(std::make_unique<TextMetric>(*reader, std::move(source),
                                                 static_cast<std::size_t>(lengths - model.tensors.begin()), widest));
  return metrics;
}

}  // namespace lockstep::workloads
