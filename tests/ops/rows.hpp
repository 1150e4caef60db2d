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

/// The range of an input's numbers.
enum class Domain {
  any,      ///< in [−1, 1]
  unit,     ///< in (0, 1)
  integer,  ///< 0 … Row::integers − 1, or as Row::ranges say
  boxes,    ///< four channels: x1, y1 in [−1, 1], and x2, y2 that are larger by 0.1 to 1
  targets,  ///< five channels: classes 0 … 2, or −1 for the last of a sample, and boxes in an image of 32 × 32 pixels:
            ///< centers, and extents of 1 to 40
};

/// The integers low … high − 1; high 0: according to Row::integers.
struct Range {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// An operator with inputs of some extent. It is one row of the table with which every back end is tested: against
/// float64, against differences and against PyTorch.
struct Row {
  std::string name;  ///< one word, as in tests/ops/pytorch.json
  Operator op;
  std::vector<Shape> inputs;
  std::vector<Domain> domains =
      {};  ///< of inputs; those without an entry are `any`, or `integer` where integers are required
  std::int64_t integers = 3;
  /// Whether PyTorch has the operator, so that mpi-scripts/parity/operators-pytorch.py includes the row.
  bool in_pytorch = true;
  std::vector<Range> ranges = {};  ///< by index of integer inputs; missing ones are according to `integers`
  /// Whether gradients are derivatives; false where something is held constant for them.
  bool has_derivatives = true;

  [[nodiscard]] Range range(std::size_t input) const {
    return input < ranges.size() && ranges[input].high > 0 ? ranges[input] : Range{0, integers};
  }
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
};

/// Shapes from real networks, and awkward ones. There is at least one row for each operator.
const std::vector<Row>& rows();

/// Runs a row once. Its tensors are the same for every back end and in PyTorch.
class Trial {
 public:
  /// @param native  whether inputs are passed in the format of a convolution's result, if a convolution could have made
  ///        them
  Trial(Ops& ops, DType dtype, const Row& row, bool native = false);

  void forward(Pass pass = Pass::forward);
  /// @throws std::logic_error if a kernel that separates gradients gives other ones in two calls than in one
  void backward();
  /// Changes the numbers of the output's gradient.
  void change_output_gradient(std::function<double(double)> change) { change_ = std::move(change); }
  /// Returns Σ output · weight, or the loss.
  [[nodiscard]] double objective() const;

  struct Named {
    std::string name;
    Values values;
  };
  /// Returns the result; empty for a loss.
  [[nodiscard]] Values output() const;
  /// Returns everything that can be compared after `forward` and `backward`: LossSums or output, state, gradients. An
  /// operator without a backward pass has its output only, and `forward` runs its only pass, `infer`.
  [[nodiscard]] std::vector<Named> results() const;
  /// Returns scalar products of these results with fixed weights; PyTorch's are recorded in this form.
  [[nodiscard]] std::vector<double> digest() const;

  /// Returns the real inputs and parameters, which have gradients.
  [[nodiscard]] std::vector<Tensor*> variables();
  [[nodiscard]] std::vector<const Tensor*> gradients() const;
  /// Returns the kernel's traits.
  [[nodiscard]] const Traits& traits() const { return kernel_->traits(); }
  /// Returns how many inputs are passed in a format that is not plain.
  [[nodiscard]] int native_inputs() const { return native_inputs_; }

 private:
  struct Input {
    Format format;  ///< the format offered to the kernel, then the one in which it is passed
    std::unique_ptr<Tensor> plain;
    std::unique_ptr<Tensor> gradient;  ///< plain; null for integers
    std::unique_ptr<Tensor> handed;    ///< null if it is the plain one
    std::unique_ptr<Tensor> handed_gradient;
    std::unique_ptr<Kernel> there;
    std::unique_ptr<Kernel> back;
  };
  void make_input(const Row& row, std::size_t index, bool native);
  void hand_over(Input& input, const Format& wanted);
  void make_owned(const std::vector<OwnedTensor>& owned, std::vector<std::unique_ptr<Tensor>>& tensors,
                  std::size_t first, double low, double high);
  Arguments arguments();
  void run_backward(bool separately);

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
