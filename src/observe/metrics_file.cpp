// SPDX-License-Identifier: Apache-2.0
#include "observe/metrics_file.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include "base/wrapped.hpp"
#include "observe/output_file.hpp"

namespace lockstep::observe {
namespace {

/// Appends the event with the time at which it is written, in seconds since 1970 (UTC).
void append(OutputFile& file, Json event) {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  event["time"] = static_cast<double>(now.count()) / 1000;
  file.write(one_line(event) + "\n");
}

/// Returns a text, or null if it is empty.
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

/// Adds a number for each metric, named "<prefix><metric>".
void add_metrics(Json& line, const std::string& prefix, const std::vector<MetricValue>& metrics) {
  for (const MetricValue& metric : metrics)
    line[prefix + metric.name] = metric.value ? Json(*metric.value) : Json(nullptr);
}

Json to_json(const std::vector<SlowRank>& ranks) {
  Json list = Json::array();
  for (const SlowRank& slow : ranks) {
    list.push_back({{"rank", slow.rank},
                    {"host", slow.host},
                    {"cause", slow.cause},
                    {"seconds", slow.seconds},
                    {"usual_seconds", slow.usual_seconds},
                    {"data_seconds", slow.data_seconds},
                    {"compute_seconds", slow.compute_seconds},
                    {"wait_seconds", slow.wait_seconds},
                    {"is_straggler", slow.is_straggler}});
  }
  return list;
}

}  // namespace

bool MetricValue::is_better_than(const std::optional<double>& other) const {
  if (!value || std::isnan(*value)) return false;
  if (!other || std::isnan(*other)) return true;
  return higher_is_better ? *value > *other : *value < *other;
}

std::string MetricValue::text() const {
  if (!value) return "-";
  return format_text(is_fraction ? "%.2f %%" : "%.4f", is_fraction ? 100 * *value : *value);
}

std::optional<double> value_of(std::span<const MetricValue> metrics, std::string_view name) {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](const MetricValue& metric) { return metric.name == name; });
  return found == metrics.end() ? std::nullopt : found->value;
}

MetricsFile::MetricsFile(const std::filesystem::path& path)
    : file_(std::make_unique<OutputFile>(path, OutputFile::Mode::append)) {}
MetricsFile::~MetricsFile() = default;
MetricsFile::MetricsFile(MetricsFile&&) noexcept = default;
MetricsFile& MetricsFile::operator=(MetricsFile&&) noexcept = default;

void MetricsFile::write(const StartEvent& event) {
  Json line = {{"event", "start"},
               {"version", event.version},
               {"model", event.model},
               {"dataset", event.dataset},
               {"ranks", event.hosts.size()},
               {"hosts", event.hosts},
               {"batch", event.batch.value},
               {"epochs", event.epochs},
               {"seed", event.seed},
               {"algorithm", event.algorithm},
               {"compress", event.compress},
               {"device", event.device},
               {"ops", event.ops},
               {"precision", event.precision},
               {"emulated", text_or_null(event.emulation)}};
  if (!event.kernel_choices.empty()) line["kernel_choices"] = event.kernel_choices;
  append(*file_, std::move(line));
}

void MetricsFile::write(const StepEvent& event) {
  Json line = {{"event", "step"},
               {"epoch", event.epoch},
               {"step", event.step},
               {"loss", event.loss},
               {"learning_rate", event.learning_rate},
               {"images_per_second", event.images_per_second},
               {"data_wait_seconds", event.data_wait_seconds},
               {"compute_seconds", compute_seconds(event)},
               {"exposed_communication_seconds", event.exposed_communication_seconds}};
  if (event.img) line["img"] = *event.img;
  append(*file_, std::move(line));
}

void MetricsFile::write(const StragglerEvent& event) {
  append(*file_, {{"event", "stragglers"},
                  {"epoch", event.epoch},
                  {"step", event.step},
                  {"steps", event.steps},
                  {"slow_ranks", to_json(event.ranks)}});
}

void MetricsFile::write(const BalanceEvent& event) {
  append(*file_, {{"event", "balance"}, {"epoch", event.epoch}, {"step", event.step}, {"shards", event.shards}});
}

void MetricsFile::write(const EpochEvent& event) {
  Json line = {{"event", "epoch"}, {"epoch", event.epoch}, {"train_loss", event.train_loss}};
  add_metrics(line, "val_", event.metrics);
  line.update({{"seconds", event.seconds},
               {"images_per_second", event.images_per_second},
               {"exposed_communication_seconds", event.exposed_communication_seconds},
               {"data_wait_seconds", event.data_wait_seconds},
               {"compute_seconds", compute_seconds(event)},
               {"evaluation_seconds", event.evaluation_seconds},
               {"slow_ranks", to_json(event.slow_ranks)}});
  if (!event.shards.empty()) line["shards"] = event.shards;
  append(*file_, std::move(line));
}

void MetricsFile::write(const CheckpointEvent& event) {
  append(*file_, {{"event", "checkpoint"},
                  {"epoch", event.epoch},
                  {"step", event.step},
                  {"path", text_or_null(event.path)},
                  {"bytes", event.bytes},
                  {"stall_seconds", event.stall_seconds},
                  {"write_seconds", event.write_seconds},
                  {"error", text_or_null(event.error)}});
}

void MetricsFile::write(const ResultEvent& event) {
  Json line = {{"event", "evaluation"}, {"samples", event.samples}};
  add_metrics(line, "val_", event.metrics);
  line["seconds"] = event.seconds;
  append(*file_, std::move(line));
}

void MetricsFile::write(const ClassesEvent& event) {
  const ClassCounts& counts = event.counts;
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json classes = Json::array();
  Json confusion = Json::array();
  for (std::size_t i = 0; i < counts.labels.size(); ++i) {
    classes.push_back({{"name", counts.name_of(i)},
                       {"samples", counts.labels[i]},
                       {"recall", number(counts.recall(i))},
                       {"precision", number(counts.precision(i))},
                       {"f1", number(counts.f1(i))}});
    if (!counts.images.empty()) classes.back()["images"] = counts.images[i];
    for (const ClassValues& values : counts.values) classes.back()[values.name] = number(values.values[i]);
    if (counts.confusion.empty()) continue;
    const auto row = counts.confusion.begin() + static_cast<std::ptrdiff_t>(i * counts.labels.size());
    confusion.push_back(std::vector(row, row + std::ssize(counts.labels)));
  }
  append(*file_, {{"event", "classes"}, {"step", event.step}, {"classes", classes}, {"confusion", confusion}});
}

void MetricsFile::write(const RecoveryEvent& event) {
  Json ranks = Json::array();
  for (const DeadRank& dead : event.ranks) ranks.push_back({{"rank", dead.rank}, {"host", dead.host}});
  append(*file_, {{"event", "recovery"},
                  {"recovery", event.number},
                  {"step", event.step},
                  {"dead_ranks", ranks},
                  {"ranks", event.left},
                  {"seconds", event.seconds}});
}

void MetricsFile::write(const EndEvent& event) {
  Json line = {{"event", "end"},
               {"outcome", event.outcome},
               {"signal", text_or_null(event.signal)},
               {"error", text_or_null(event.error)},
               {"epochs", event.epochs},
               {"steps", event.steps},
               {"steps_of_start", event.steps_of_start},
               {"seconds", event.seconds}};
  add_metrics(line, "best_", event.best);
  add_metrics(line, "final_", event.last);
  line["evaluated_step"] = event.evaluated_step == 0 ? Json(nullptr) : Json(event.evaluated_step);
  line.update({{"skipped_updates", event.skipped_updates},
               {"optimizer_bytes", event.optimizer_bytes},
               {"weights_sha256", event.weights_sha256}});
  append(*file_, std::move(line));
}

bool has_event(const std::filesystem::path& path, const std::string& kind, std::int64_t number) {
  bool has = false;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_object()) continue;  // a kill has cut it off
    const std::string of_line = event.value("event", "");
    if (of_line == "start") has = false;
    if (of_line == kind && event.value(kind, std::int64_t{0}) == number) has = true;
  }
  return has;
}

}  // namespace lockstep::observe
