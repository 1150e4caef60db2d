// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/metrics_file.hpp"

#include "observe/json.hpp"
#include "observe/output_file.hpp"

namespace lockstep::observe {

namespace {

void append(OutputFile& file, const Json& event) { file.write(one_line(event) + "\n"); }

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

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
               {"emulated", event.emulation.empty() ? Json(nullptr) : Json(event.emulation)}};
  if (!event.kernel_choices.empty()) line["kernel_choices"] = event.kernel_choices;
  append(*file_, line);
}

void MetricsFile::write(const StepEvent& event) {
  append(*file_, {{"event", "step"},
                  {"epoch", event.epoch},
                  {"step", event.step},
                  {"loss", event.loss},
                  {"learning_rate", event.learning_rate},
                  {"images_per_second", event.images_per_second}});
}

void MetricsFile::write(const EpochEvent& event) {
  append(*file_, {{"event", "epoch"},
                  {"epoch", event.epoch},
                  {"train_loss", event.train_loss},
                  {"val_loss", optional_number(event.val_loss)},
                  {"val_accuracy", optional_number(event.val_accuracy)},
                  {"seconds", event.seconds},
                  {"images_per_second", event.images_per_second},
                  {"exposed_communication_seconds", event.exposed_communication_seconds},
                  {"data_wait_seconds", event.data_wait_seconds},
                  {"evaluation_seconds", event.evaluation_seconds}});
}

void MetricsFile::write(const CheckpointEvent& event) {
  append(*file_, {{"event", "checkpoint"},
                  {"epoch", event.epoch},
                  {"step", event.step},
                  {"path", event.path.empty() ? Json(nullptr) : Json(event.path)},
                  {"bytes", event.bytes},
                  {"stall_seconds", event.stall_seconds},
                  {"write_seconds", event.write_seconds},
                  {"error", event.error.empty() ? Json(nullptr) : Json(event.error)}});
}

void MetricsFile::write(const EndEvent& event) {
  append(*file_, {{"event", "end"},
                  {"outcome", event.outcome},
                  {"signal", event.signal.empty() ? Json(nullptr) : Json(event.signal)},
                  {"epochs", event.epochs},
                  {"steps", event.steps},
                  {"seconds", event.seconds},
                  {"best_accuracy", optional_number(event.best_accuracy)},
                  {"final_accuracy", optional_number(event.final_accuracy)},
                  {"skipped_updates", event.skipped_updates},
                  {"optimizer_bytes", event.optimizer_bytes},
                  {"weights_sha256", event.weights_sha256}});
}

}  // namespace lockstep::observe
