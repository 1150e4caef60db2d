// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/mask_metric.hpp"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/trainer/metric.hpp"
#include "trainer/loop/confusion.hpp"
#include "workloads/segmentation/mask_reader.hpp"

namespace lockstep::workloads {
namespace {

class MaskMetric final : public trainer::Metric {
 public:
  MaskMetric(MaskReader reader, std::shared_ptr<const vision::Source> source)
      : reader_(std::move(reader)),
        source_(std::move(source)),
        confusion_(std::ssize(source_->class_names()), source_->class_names()) {}

  void reset() override { confusion_.reset(); }
  void add(const nn::Prediction& prediction, const data::Batch& batch) override {
    for (std::int64_t i = 0; i < batch.samples.value; ++i) {
      const std::optional<vision::Image> found = reader_.mask(prediction, batch, i);
      if (!found) continue;
      source_->read_mask(batch.ids[static_cast<std::size_t>(i)], bytes_, mask_);
      for (std::size_t pixel = 0; pixel < mask_.pixels.size(); ++pixel)
        if (mask_.pixels[pixel] != vision::left_out_pixel) confusion_.count(mask_.pixels[pixel], found->pixels[pixel]);
    }
  }
  void reduce(Communicator& communicator) override {
    confusion_.reduce(communicator);
    confusion_.add_iou();
  }
  [[nodiscard]] std::vector<observe::MetricValue> values() const override { return confusion_.metrics_of_pixels(); }
  [[nodiscard]] const observe::ClassCounts* classes() const override { return &confusion_.counts(); }

 private:
  MaskReader reader_;
  std::shared_ptr<const vision::Source> source_;
  trainer::Confusion confusion_;
  std::vector<std::byte> bytes_;  // memory that is used again
  vision::Image mask_;
};

}  // namespace

trainer::Workload::Metrics mask_metrics(const FoundModel& model, std::shared_ptr<const vision::Source> source) {
  const std::optional<MaskReader> reader = MaskReader::of(model);
  if (!reader)
    throw Error(ErrorCode::invalid_argument, "model '" + model.graph.name() +
                                                 "' has no metrics of segmentation: an output must have a number for "
                                                 "each class and pixel of the input");
  trainer::Workload::Metrics metrics = trainer::loss_metrics(model.graph, model.tensors);
  metrics.push_back(std::make_unique<MaskMetric>(*reader, std::move(source)));
  return metrics;
}

}  // namespace lockstep::workloads
