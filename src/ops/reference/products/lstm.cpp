// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/formulas/functions.hpp"
#include "ops/reference/operators.hpp"
#include "ops/reference/products/gemm.hpp"

namespace lockstep::ops::reference {
namespace {

/// The cell of one sample at one step. Pointers are to `hidden` values; those to gates are to i, f, g and o, `hidden`
/// values each.
template <typename T>
struct LstmCell {
  std::int64_t hidden;

  /// Turns sums into gates, in place. @param before  the cell at the step before
  void forward(T* gates, const T* before, T* cell, T* state) const {
    const SigmoidFunction<T> sigmoid;
    for (std::int64_t j = 0; j < hidden; ++j) {
      T& i = gates[j];
      T& f = gates[hidden + j];
      T& g = gates[2 * hidden + j];
      T& o = gates[3 * hidden + j];
      i = sigmoid.value(i);
      f = sigmoid.value(f);
      g = std::tanh(g);
      o = sigmoid.value(o);
      cell[j] = f * before[j] + i * g;
      state[j] = o * std::tanh(cell[j]);
    }
  }

  /// @param d_state  gradient of the state  @param d_cell  gradient of the cell from the step after; overwritten with
  ///        that of the cell before
  /// @param d_gates  overwritten with the gradients of the sums
  void backward(const T* gates, const T* before, const T* cell, const T* d_state, T* d_cell, T* d_gates) const {
    for (std::int64_t j = 0; j < hidden; ++j) {
      const T i = gates[j];
      const T f = gates[hidden + j];
      const T g = gates[2 * hidden + j];
      const T o = gates[3 * hidden + j];
      const T squashed = std::tanh(cell[j]);
      const T dc = d_cell[j] + d_state[j] * o * (T{1} - squashed * squashed);
      d_gates[j] = dc * g * i * (T{1} - i);
      d_gates[hidden + j] = dc * before[j] * f * (T{1} - f);
      d_gates[2 * hidden + j] = dc * i * (T{1} - g * g);
      d_gates[3 * hidden + j] = d_state[j] * squashed * o * (T{1} - o);
      d_cell[j] = dc * f;
    }
  }
};

/// Works on copies in which a step's samples are contiguous, T×N×features, one direction after the other. Saved for
/// each direction are the gates, T×N×4·hidden, and the cells, T×N×hidden. Elements beyond a sample's length are zero
/// wherever they are read.
template <typename T>
class LstmKernel final : public Kernel {
 public:
  LstmKernel(Formats in, const Lstm& lstm)
      : Kernel({.inputs = {in.begin(), in.end()},
                .output = output_of(lstm, in),
                .saved = {5 * output_of(lstm, in).bytes.value}}),
        in_(in[0].shape),
        hidden_(lstm.hidden),
        directions_(lstm.bidirectional ? 2 : 1),
        cell_{hidden_},
        lengths_(size(in_.batch), static_cast<std::int32_t>(in_.width)),
        xs_(size(rows() * in_.channels)),
        dxs_(xs_.size()),
        states_(size(rows() * hidden_)),
        d_states_(states_.size()),
        d_cells_(size(in_.batch * hidden_)),
        zeros_(size(hidden_)),
        scratch_(size(5 * rows() * hidden_)),
        sums_(size(4 * hidden_)) {}

  void forward(const Arguments& call) override { run_forward(call, static_cast<T*>(call.saved)); }
  void infer(const Arguments& call) override { run_forward(call, nullptr); }

  void backward(const Arguments& call) override {
    read_inputs(call);
    std::fill(dxs_.begin(), dxs_.end(), T{0});
    for (std::int64_t d = 0; d < directions_; ++d) {
      gather(static_cast<const T*>(call.output), directions_ * hidden_, d * hidden_, hidden_, states_.data());
      gather(static_cast<const T*>(call.output_gradient), directions_ * hidden_, d * hidden_, hidden_,
             d_states_.data());
      back_through_time(call, d);
      parameter_gradients(call, d);
      if (call.input_gradients[0] != nullptr) {
        gemm_.add_product(by_row<const T>(scratch_.data(), rows(), 4 * hidden_), weights_ih(call, d),
                          by_row(dxs_.data(), rows(), in_.channels));
      }
    }
    if (call.input_gradients[0] != nullptr)
      scatter(dxs_.data(), in_.channels, 0, in_.channels, static_cast<T*>(call.input_gradients[0]));
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
  [[nodiscard]] std::int64_t steps() const { return in_.width; }
  [[nodiscard]] std::int64_t rows() const { return in_.width * in_.batch; }
  /// Returns the step that is the k-th in a direction.
  [[nodiscard]] std::int64_t step(std::int64_t direction, std::int64_t k) const {
    return direction == 0 ? k : steps() - 1 - k;
  }
  [[nodiscard]] bool within(std::int64_t n, std::int64_t t) const { return t < lengths_[size(n)]; }

  template <typename U>
  static Matrix<U> by_row(U* data, std::int64_t rows, std::int64_t columns) {
    return {data, rows, columns, columns};
  }
  static const T* parameter(const Arguments& call, std::int64_t direction, std::int64_t which) {
    return static_cast<const T*>(call.parameters[size(4 * direction + which)]);
  }
  [[nodiscard]] Matrix<const T> weights_ih(const Arguments& call, std::int64_t direction) const {
    return by_row(parameter(call, direction, 0), 4 * hidden_, in_.channels);
  }
  [[nodiscard]] Matrix<const T> weights_hh(const Arguments& call, std::int64_t direction) const {
    return by_row(parameter(call, direction, 1), 4 * hidden_, hidden_);
  }

  /// Copies `count` features from `first` on of an N×all×T array to T×N×count.
  void gather(const T* from, std::int64_t all, std::int64_t first, std::int64_t count, T* to) const {
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      for (std::int64_t t = 0; t < steps(); ++t) {
        T* row = to + (t * in_.batch + n) * count;
        const T* column = from + (n * all + first) * steps() + t;
        for (std::int64_t c = 0; c < count; ++c) row[c] = within(n, t) ? column[c * steps()] : T{0};
      }
    }
  }

  /// Copies in the other direction.
  void scatter(const T* from, std::int64_t all, std::int64_t first, std::int64_t count, T* to) const {
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      for (std::int64_t c = 0; c < count; ++c) {
        T* row = to + (n * all + first + c) * steps();
        const T* column = from + n * count + c;
        for (std::int64_t t = 0; t < steps(); ++t) row[t] = column[t * in_.batch * count];
      }
    }
  }

  void read_inputs(const Arguments& call) {
    if (call.inputs.size() == 2)
      std::copy_n(static_cast<const std::int32_t*>(call.inputs[1]), in_.batch, lengths_.data());
    for (std::int64_t n = 0; n < in_.batch; ++n) {
      std::int32_t& length = lengths_[size(n)];
      if (length >= 0 && length <= steps()) continue;
      call.report(FaultCode::steps, n, length, steps());
      length = 0;
    }
    gather(static_cast<const T*>(call.inputs[0]), in_.channels, 0, in_.channels, xs_.data());
  }

  void run_forward(const Arguments& call, T* saved) {
    read_inputs(call);
    for (std::int64_t d = 0; d < directions_; ++d) {
      T* gates = saved == nullptr ? scratch_.data() : saved + 5 * d * rows() * hidden_;
      const T* bias_ih = parameter(call, d, 2);
      const T* bias_hh = parameter(call, d, 3);
      for (std::int64_t row = 0; row < rows(); ++row) {
        for (std::int64_t j = 0; j < 4 * hidden_; ++j) gates[row * 4 * hidden_ + j] = bias_ih[j] + bias_hh[j];
      }
      gemm_.add_product(by_row<const T>(xs_.data(), rows(), in_.channels), weights_ih(call, d).transposed(),
                        by_row(gates, rows(), 4 * hidden_));
      through_time(call, d, gates, gates + 4 * rows() * hidden_);
      scatter(states_.data(), directions_ * hidden_, d * hidden_, hidden_, static_cast<T*>(call.output));
    }
  }

  /// @param gates  the sums without the terms from the step before
  void through_time(const Arguments& call, std::int64_t d, T* gates, T* cells) {
    for (std::int64_t k = 0; k < steps(); ++k) {
      const std::int64_t row = step(d, k) * in_.batch;
      const std::int64_t before = k == 0 ? row : step(d, k - 1) * in_.batch;
      if (k > 0) {
        gemm_.add_product(by_row<const T>(states_.data() + before * hidden_, in_.batch, hidden_),
                          weights_hh(call, d).transposed(), by_row(gates + row * 4 * hidden_, in_.batch, 4 * hidden_));
      }
      for (std::int64_t n = 0; n < in_.batch; ++n) {
        T* cell = cells + (row + n) * hidden_;
        T* state = states_.data() + (row + n) * hidden_;
        if (within(n, step(d, k))) {
          cell_.forward(gates + (row + n) * 4 * hidden_, k == 0 ? zeros_.data() : cells + (before + n) * hidden_, cell,
                        state);
        } else {
          std::fill_n(cell, hidden_, T{0});
          std::fill_n(state, hidden_, T{0});
        }
      }
    }
  }

  /// Writes the gradients of the sums to `scratch_`, T×N×4·hidden.
  void back_through_time(const Arguments& call, std::int64_t d) {
    const T* gates = static_cast<const T*>(call.saved) + 5 * d * rows() * hidden_;
    const T* cells = gates + 4 * rows() * hidden_;
    std::fill(d_cells_.begin(), d_cells_.end(), T{0});
    for (std::int64_t k = steps() - 1; k >= 0; --k) {
      const std::int64_t row = step(d, k) * in_.batch;
      const std::int64_t before = k == 0 ? row : step(d, k - 1) * in_.batch;
      T* d_gates = scratch_.data() + row * 4 * hidden_;
      for (std::int64_t n = 0; n < in_.batch; ++n) {
        T* d_cell = d_cells_.data() + n * hidden_;
        if (within(n, step(d, k))) {
          cell_.backward(gates + (row + n) * 4 * hidden_, k == 0 ? zeros_.data() : cells + (before + n) * hidden_,
                         cells + (row + n) * hidden_, d_states_.data() + (row + n) * hidden_, d_cell,
                         d_gates + n * 4 * hidden_);
        } else {
          std::fill_n(d_gates + n * 4 * hidden_, 4 * hidden_, T{0});
        }
      }
      if (k == 0) break;
      gemm_.add_product(by_row<const T>(d_gates, in_.batch, 4 * hidden_), weights_hh(call, d),
                        by_row(d_states_.data() + before * hidden_, in_.batch, hidden_));
    }
  }

  void parameter_gradients(const Arguments& call, std::int64_t d) {
    const auto gradient = [&](std::int64_t which) {
      return static_cast<T*>(call.parameter_gradients[size(4 * d + which)]);
    };
    const Matrix<const T> d_gates = by_row<const T>(scratch_.data(), rows(), 4 * hidden_);
    std::fill_n(gradient(0), 4 * hidden_ * in_.channels, T{0});
    gemm_.add_product(d_gates.transposed(), by_row<const T>(xs_.data(), rows(), in_.channels),
                      by_row(gradient(0), 4 * hidden_, in_.channels));
    // The gradients of a step are multiplied by the states of the step before it, which is one row of samples above or
    // below.
    const std::int64_t pairs = rows() - in_.batch;
    const std::int64_t shift = in_.batch * hidden_;
    const T* of_gates = scratch_.data() + (d == 0 ? 4 * shift : 0);
    const T* of_states = states_.data() + (d == 0 ? 0 : shift);
    std::fill_n(gradient(1), 4 * hidden_ * hidden_, T{0});
    gemm_.add_product(by_row(of_gates, pairs, 4 * hidden_).transposed(), by_row(of_states, pairs, hidden_),
                      by_row(gradient(1), 4 * hidden_, hidden_));
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t j = 0; j < 4 * hidden_; ++j) sums_[size(j)] += static_cast<double>(*d_gates.at(row, j));
    }
    for (std::int64_t j = 0; j < 4 * hidden_; ++j) gradient(2)[j] = gradient(3)[j] = static_cast<T>(sums_[size(j)]);
  }

  Shape in_;
  std::int64_t hidden_;
  std::int64_t directions_;
  LstmCell<T> cell_;
  std::vector<std::int32_t> lengths_;
  std::vector<T> xs_;
  std::vector<T> dxs_;
  std::vector<T> states_;  ///< like the following, for the current direction
  std::vector<T> d_states_;
  std::vector<T> d_cells_;
  std::vector<T> zeros_;    ///< the cell before the first step
  std::vector<T> scratch_;  ///< gates and cells if none are saved; gradients of the gates in backward
  std::vector<double> sums_;
  Gemm<T> gemm_;
};

}  // namespace

KernelPtr make(const Lstm& lstm, Formats in) { return make_for<LstmKernel>(in, lstm); }

}  // namespace lockstep::ops::reference
