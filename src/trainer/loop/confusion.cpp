// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/confusion.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

namespace lockstep::trainer {

Confusion::Confusion(std::int64_t classes, std::vector<std::string> names) : classes_(classes) {
  constexpr std::int64_t most_with_matrix = 1000;
  has_matrix_ = classes <= most_with_matrix;
  counts_.resize(static_cast<std::size_t>(3 * classes + (has_matrix_ ? classes * classes : 0)));
  result_.names = std::move(names);
}

void Confusion::reset() { std::ranges::fill(counts_, 0); }

void Confusion::reduce(Communicator& communicator) {
  communicator.all_reduce(std::span(counts_), std::span(counts_), ReduceOp::sum, Queue::host(), "classes").wait();
  auto begin = counts_.begin();
  for (std::vector<std::int64_t>* by_class : {&result_.labels, &result_.predictions, &result_.hits}) {
    by_class->assign(begin, begin + classes_);
    begin += classes_;
  }
  result_.confusion.assign(begin, counts_.end());
}

void Confusion::add_iou() {
  observe::ClassValues iou{.name = "iou", .values = {}};
  for (std::size_t label = 0; label < result_.labels.size(); ++label) iou.values.push_back(result_.iou(label));
  result_.values = {std::move(iou)};
}

std::vector<observe::MetricValue> Confusion::metrics_of_pixels() const {
  const auto sum = [](const std::vector<std::int64_t>& numbers) {
    return static_cast<double>(std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}));
  };
  const double pixels = sum(result_.labels);
  const double accuracy = pixels == 0 ? 0 : sum(result_.hits) / pixels;
  return {{.name = "accuracy", .value = accuracy, .higher_is_better = true, .is_fraction = true},
          {.name = "miou", .value = result_.mean_iou(), .higher_is_better = true, .is_fraction = true}};
}

}  // namespace lockstep::trainer
