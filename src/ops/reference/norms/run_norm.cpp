// SPDX-License-Identifier: Apache-2.0
#include "ops/reference/norms/run_norm.hpp"

#include <algorithm>

#include "ops/reference/loops.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// The mean and scale by which values are normalized, in double. It is saved for backward as it is.
struct Standardization {
  double mean;
  double inverse_deviation;
};

/// Uses two passes, the second over differences from the mean, so that there is no cancellation.
template <typename T>
Standardization standardization_of(const T* values, std::int64_t count, double epsilon) {
  const double mean = sum(values, count) / static_cast<double>(count);
  const double squares = sum_of(count, [values, mean](std::int64_t i) {
    const double difference = static_cast<double>(values[i]) - mean;
    return difference * difference;
  });
  return {mean, 1 / std::sqrt(squares / static_cast<double>(count) + epsilon)};
}

/// Computes in double between reading and writing. Saved is each run's standardization.
template <typename T>
class RunNormKernel final : public Kernel {
 public:
  RunNormKernel(const Format& in, const Runs& runs)
      : Kernel({.inputs = {in},
                .output = in,
                .saved = {in.shape.batch * runs.of_sample * static_cast<std::int64_t>(sizeof(Standardization))},
                .backward_reads_output = false}),
        runs_(runs),
        batch_(in.shape.batch),
        weight_gradient_(static_cast<std::size_t>(weights_of_run() * runs.of_sample)),
        bias_gradient_(weight_gradient_.size()) {}

  void forward(const Arguments& call) override { normalize(call, static_cast<Standardization*>(call.saved)); }
  void infer(const Arguments& call) override { normalize(call, nullptr); }

  void backward(const Arguments& call) override {
    std::fill(weight_gradient_.begin(), weight_gradient_.end(), 0.0);
    std::fill(bias_gradient_.begin(), bias_gradient_.end(), 0.0);
    for (std::int64_t run = 0; run < batch_ * runs_.of_sample; ++run) backward_run(call, run);
    const auto round = [](double value) { return static_cast<T>(value); };
    std::transform(weight_gradient_.begin(), weight_gradient_.end(), static_cast<T*>(call.parameter_gradients[0]),
                   round);
    std::transform(bias_gradient_.begin(), bias_gradient_.end(), static_cast<T*>(call.parameter_gradients[1]), round);
  }

 private:
  void normalize(const Arguments& call, Standardization* saved) const {
    for (std::int64_t run = 0; run < batch_ * runs_.of_sample; ++run) {
      const T* x = static_cast<const T*>(call.inputs[0]) + run * runs_.length();
      T* y = static_cast<T*>(call.output) + run * runs_.length();
      const Standardization moments = standardization_of(x, runs_.length(), runs_.epsilon);
      if (saved != nullptr) saved[run] = moments;
      const T* weight = weights(call, 0, run);
      const T* bias = weights(call, 1, run);
      for (std::int64_t row = 0; row < runs_.rows; ++row, x += runs_.columns, y += runs_.columns) {
        with_step([&](auto step) {
          for (std::int64_t i = 0; i < runs_.columns; ++i) {
            const double scaled = normal(x[i], moments) * static_cast<double>(weight[row + i * step]);
            y[i] = static_cast<T>(scaled + static_cast<double>(bias[row + i * step]));
          }
        });
      }
    }
  }

  /// The sums of a run, with g = dy·weight and the normalized x̂.
  struct Sums {
    double g = 0;
    double g_x = 0;
  };

  void backward_run(const Arguments& call, std::int64_t run) {
    const T* x = static_cast<const T*>(call.inputs[0]) + run * runs_.length();
    const T* dy = static_cast<const T*>(call.output_gradient) + run * runs_.length();
    const Standardization moments = static_cast<const Standardization*>(call.saved)[run];
    const T* weight = weights(call, 0, run);
    const std::int64_t first = run % runs_.of_sample * weights_of_run();
    const Sums sums = runs_.weights_of_elements ? sums_of_elements(x, dy, moments, weight, first)
                                                : sums_of_rows(x, dy, moments, weight, first);
    if (call.input_gradients[0] == nullptr) return;
    backward_input(x, dy, moments, weight, sums, static_cast<T*>(call.input_gradients[0]) + run * runs_.length());
  }

  Sums sums_of_rows(const T* x, const T* dy, const Standardization& moments, const T* weight, std::int64_t first) {
    Sums sums;
    for (std::int64_t row = 0; row < runs_.rows; ++row, x += runs_.columns, dy += runs_.columns) {
      const double sum_dy = sum(dy, runs_.columns);
      const double sum_dy_x = sum_of(runs_.columns, [x, dy, moments](std::int64_t i) {
        return static_cast<double>(dy[i]) * normal(x[i], moments);
      });
      weight_gradient_[static_cast<std::size_t>(first + row)] += sum_dy_x;
      bias_gradient_[static_cast<std::size_t>(first + row)] += sum_dy;
      sums.g += static_cast<double>(weight[row]) * sum_dy;
      sums.g_x += static_cast<double>(weight[row]) * sum_dy_x;
    }
    return sums;
  }

  Sums sums_of_elements(const T* x, const T* dy, const Standardization& moments, const T* weight, std::int64_t first) {
    double* weight_gradient = weight_gradient_.data() + first;
    double* bias_gradient = bias_gradient_.data() + first;
    for (std::int64_t i = 0; i < runs_.columns; ++i) {
      weight_gradient[i] += static_cast<double>(dy[i]) * normal(x[i], moments);
      bias_gradient[i] += static_cast<double>(dy[i]);
    }
    const auto g = [dy, weight](std::int64_t i) { return static_cast<double>(dy[i]) * static_cast<double>(weight[i]); };
    return {sum_of(runs_.columns, g),
            sum_of(runs_.columns, [&](std::int64_t i) { return g(i) * normal(x[i], moments); })};
  }

  /// Computes dx = (g − Σg/m − x̂·Σ(g·x̂)/m) ÷ deviation, over m elements.
  void backward_input(const T* x, const T* dy, const Standardization& moments, const T* weight, const Sums& sums,
                      T* dx) const {
    const double mean_g = sums.g / static_cast<double>(runs_.length());
    const double mean_g_x = sums.g_x / static_cast<double>(runs_.length());
    for (std::int64_t row = 0; row < runs_.rows; ++row) {
      const std::int64_t begin = row * runs_.columns;
      with_step([&](auto step) {
        for (std::int64_t i = begin; i < begin + runs_.columns; ++i) {
          const double g = static_cast<double>(dy[i]) * static_cast<double>(weight[row + (i - begin) * step]);
          dx[i] = static_cast<T>((g - mean_g - normal(x[i], moments) * mean_g_x) * moments.inverse_deviation);
        }
      });
    }
  }

  static double normal(T x, const Standardization& moments) {
    return (static_cast<double>(x) - moments.mean) * moments.inverse_deviation;
  }

  /// Calls `f` with the distance between the weights of neighbors in a row, known at compile time.
  template <typename F>
  void with_step(const F& f) const {
    runs_.weights_of_elements ? f(std::integral_constant<std::int64_t, 1>{})
                              : f(std::integral_constant<std::int64_t, 0>{});
  }

  /// Returns a run's weights (0) or biases (1).
  [[nodiscard]] const T* weights(const Arguments& call, std::size_t parameter, std::int64_t run) const {
    return static_cast<const T*>(call.parameters[parameter]) + run % runs_.of_sample * weights_of_run();
  }
  [[nodiscard]] std::int64_t weights_of_run() const { return runs_.weights_of_elements ? runs_.columns : runs_.rows; }

  Runs runs_;
  std::int64_t batch_;
  std::vector<double> weight_gradient_;
  std::vector<double> bias_gradient_;
};

}  // namespace

KernelPtr make_run_norm(const Runs& runs, Formats in) { return make_for<RunNormKernel>(in, runs); }

KernelPtr make(const GroupNorm& norm, Formats in) {
  const std::int64_t plane = in[0].shape.height * in[0].shape.width;
  const std::int64_t channels = in[0].shape.channels / norm.groups;
  if (plane == 1) {
    return make_run_norm(
        {.of_sample = norm.groups, .columns = channels, .weights_of_elements = true, .epsilon = norm.epsilon}, in);
  }
  return make_run_norm({.of_sample = norm.groups, .rows = channels, .columns = plane, .epsilon = norm.epsilon}, in);
}

}  // namespace lockstep::ops::reference
