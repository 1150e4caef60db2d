#include "apps/comm-bench/measure.hpp"

#include <algorithm>
#include <chrono>

#include "lockstep/backends/mpi_native/blocking.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/platform/bootstrap.hpp"

namespace lockstep::comm_bench {
namespace {

constexpr double min_repetitions = 5;
constexpr double max_repetitions = 1000;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The contenders at one size, and what has been counted of each.
class Series {
 public:
  Series(const MpiGroup& group, const Contenders& contenders, const Exercise::Shape& shape, void* memory)
      : group_(&group), contenders_(&contenders), exercise_(shape, memory), wrong_(contenders.size()) {}

  /// Each contender once; appends this rank's seconds, in the contenders' order.
  void round(std::vector<double>& seconds) {
    for (std::size_t i = 0; i < contenders_->size(); ++i) {
      ++repetition_;  // differs between contenders too: none can pass with the result of the one before
      exercise_.refill(repetition_);
      const Collective collective = exercise_.collective();
      barrier(*group_);
      const Clock::time_point begin = Clock::now();
      (*contenders_)[i]->run(collective);
      seconds.push_back(seconds_since(begin));
      wrong_[i] += exercise_.wrong(repetition_);
    }
  }

  [[nodiscard]] Bytes bytes() const { return exercise_.bytes(); }
  [[nodiscard]] std::vector<std::int64_t>& wrong() { return wrong_; }

 private:
  const MpiGroup* group_;
  const Contenders* contenders_;
  Exercise exercise_;
  std::int64_t repetition_ = 0;
  std::vector<std::int64_t> wrong_;
};

/// Rank 0 decides, since ranks that differ by one repetition would wait for each other for ever.
std::int64_t agreed_repetitions(const MpiGroup& group, const Effort& effort, double seconds_each) {
  if (effort.repetitions > 0) return effort.repetitions;
  const double fitting = std::clamp(effort.seconds / seconds_each, min_repetitions, max_repetitions);
  return all_gather_numbers(group, static_cast<std::int64_t>(fitting)).front();
}

template <typename T>
void over_all_ranks(const MpiGroup& group, std::vector<T>& values, DType dtype, ReduceOp op) {
  const Buffer buffer{values.data(), {static_cast<std::int64_t>(values.size())}, dtype};
  backends::mpi_blocking(group, {.kind = CollectiveKind::all_reduce, .in = buffer, .out = buffer, .op = op});
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::vector<Measurement> measure(const MpiGroup& group, const Contenders& contenders, const Exercise::Shape& shape,
                                 void* memory, const Effort& effort) {
  Series series(group, contenders, shape, memory);
  std::vector<double> seconds;
  double round_seconds = 0;
  for (int i = 0; i < effort.warmup; ++i) {
    const Clock::time_point begin = Clock::now();
    series.round(seconds);
    round_seconds = seconds_since(begin);
  }
  seconds.clear();
  const auto width = contenders.size();
  const std::int64_t repetitions = agreed_repetitions(group, effort, round_seconds / static_cast<double>(width));
  for (std::int64_t i = 0; i < repetitions; ++i) series.round(seconds);
  over_all_ranks(group, seconds, DType::float64, ReduceOp::max);
  over_all_ranks(group, series.wrong(), DType::int64, ReduceOp::sum);

  std::vector<Measurement> results;
  for (std::size_t i = 0; i < width; ++i) {
    std::vector<double> own;
    for (std::size_t k = i; k < seconds.size(); k += width) own.push_back(seconds[k]);
    const double middle = median(own);
    results.push_back({.algorithm = contenders[i]->name(),
                       .bytes = series.bytes(),
                       .count = shape.kind == CollectiveKind::barrier ? Count{0} : shape.part,
                       .median_seconds = middle,
                       .min_seconds = own.front(),
                       .wrong = series.wrong()[i]});
  }
  return results;
}

}  // namespace lockstep::comm_bench
