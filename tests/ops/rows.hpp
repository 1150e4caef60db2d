// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/graph.hpp"

namespace lockstep::ops::test {

/// What numbers an input is made of.
enum class Domain {
  any,      ///< in [−1, 1]
  unit,     ///< in (0, 1)
  integer,  ///< 0 … Row::integers − 1, or as Row::ranges say
  boxes,    ///< four channels: x1, y1 in [−1, 1], x2, y2 by 0.1 to 1 larger
};

/// Integers low … high − 1; high 0: as Row::integers says.
struct Range {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// An operator with inputs of some extent: one row of the table that every back end is held to, by float64, by
/// differences and by PyTorch.
struct Row {
  std::string name;  ///< as in tests/ops/pytorch.json; a word
  Operator op;
  std::vector<Shape> inputs;
  std::vector<Domain> domains =
      {};  ///< of inputs; those that are not named are `any`, or `integer` where they have to be
  std::int64_t integers = 3;
  /// Whether PyTorch has the operator, so that mpi-scripts/operators-pytorch.py does.
  bool in_pytorch = true;
  std::vector<Range> ranges = {};  ///< of inputs, by index, where they are integers; else as `integers` says

  [[nodiscard]] Range range(std::size_t input) const {
    return input < ranges.size() && ranges[input].high > 0 ? ranges[input] : Range{0, integers};
  }
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
};

/// Shapes of real networks, and awkward ones. One row for each operator at least.
const std::vector<Row>& rows();

/// Runs a row once: its tensors are the same for every back end, and in PyTorch.
class Trial {
 public:
  /// @param native  whether inputs that a convolution could have made are handed over in the format of such a one
  Trial(Ops& ops, DType dtype, const Row& row, bool native = false);

  void forward(Pass pass = Pass::forward);
  void backward();
  /// Makes other numbers of those that the output's gradient has otherwise.
  void change_output_gradient(std::function<double(double)> change) { change_ = std::move(change); }
  /// Σ output · weight, or the loss.
  [[nodiscard]] double objective() const;

  struct Named {
    std::string name;
    Values values;
  };
  /// The result; of a loss nothing.
  [[nodiscard]] Values output() const;
  /// Everything that can be compared after `forward` and `backward`: loss_sums or output, state, gradients.
  [[nodiscard]] std::vector<Named> results() const;
  /// Scalar products of the same with fixed weights: what PyTorch's are written down as.
  [[nodiscard]] std::vector<double> digest() const;

  /// Those that are real numbers, and have gradients.
  [[nodiscard]] std::vector<Tensor*> variables();
  [[nodiscard]] std::vector<const Tensor*> gradients() const;
  /// Of its kernel.
  [[nodiscard]] const Traits& traits() const { return kernel_->traits(); }
  /// How many of the inputs are handed over in a format that is not plain.
  [[nodiscard]] int native_inputs() const { return native_inputs_; }

 private:
  struct Input {
    Format format;  ///< that the kernel is offered, then in which it is handed over
    std::unique_ptr<Tensor> plain;
    std::unique_ptr<Tensor> gradient;  ///< plain; null for integers
    std::unique_ptr<Tensor> handed;    ///< null where that is the plain one
    std::unique_ptr<Tensor> handed_gradient;
    std::unique_ptr<Kernel> there;
    std::unique_ptr<Kernel> back;
  };
  void make_input(const Row& row, std::size_t index, bool native);
  void hand_over(Input& input, const Format& wanted);
  void make_owned(const std::vector<OwnedTensor>& owned, std::vector<std::unique_ptr<Tensor>>& tensors,
                  std::size_t first, double low, double high);
  Arguments arguments();

  Ops& ops_;
  DType dtype_;
  Signature signature_;
  std::vector<Input> inputs_;
  std::vector<std::unique_ptr<Tensor>> parameters_;
  std::vector<std::unique_ptr<Tensor>> parameter_gradients_;
  std::vector<std::unique_ptr<Tensor>> state_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Tensor> output_;
  std::unique_ptr<Tensor> output_gradient_;
  std::unique_ptr<Tensor> saved_;
  std::unique_ptr<Kernel> output_back_;
  std::unique_ptr<Tensor> plain_output_;
  std::unique_ptr<Tensor> plain_gradient_;
  std::unique_ptr<Kernel> gradient_there_;
  LossSums figures_;
  RngKey occasion_{.seed = 7, .step = 3, .first_sample = 5};
  double factor_ = 1;
  std::function<double(double)> change_ = [](double x) { return x; };
  int native_inputs_ = 0;
  std::vector<const void*> input_pointers_;
  std::vector<const void*> parameter_pointers_;
  std::vector<void*> state_pointers_;
  std::vector<void*> input_gradient_pointers_;
  std::vector<void*> parameter_gradient_pointers_;
};

}  // namespace lockstep::ops::test
