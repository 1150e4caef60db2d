// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ops/format.hpp"
#include "lockstep/ops/operators.hpp"

/// The arithmetic of operators: one interface, several implementations.
namespace lockstep::ops {

/// What of an operator is run. Every operator has `infer`, `forward` and `backward`, a loss `weigh` too. An operator
/// whose ranks have to know something of each other's parts first leaves that in `Arguments::part` by `measure`, before
/// `forward`, and `measure_backward`, before `backward`. One whose result need not be kept has `recompute`.
enum class Pass {
  weigh,  ///< of targets alone: `Figures::weight`, and nothing else
  infer,  ///< by running statistics, and nothing is kept
  measure,
  forward,    ///< by the batch's statistics, and what backward reads is kept
  recompute,  ///< after `forward`, of the same inputs: the same output, bit for bit, and nothing else
  measure_backward,
  backward,
};

/// Whether a pass writes over what it finds, or adds to it.
enum class Writes { overwrites, accumulates };

/// What the planner of a step has to know of a kernel.
struct Traits {
  std::vector<Format> inputs;  ///< that it takes; whoever has another brings it into this one first
  Format output;
  Bytes saved;                              ///< what forward leaves for backward of the same batch
  bool backward_reads_inputs = true;        ///< false: their memory can be used for others in between
  bool backward_reads_first_input = false;  ///< of the inputs, and none of the others; where it reads inputs
  bool backward_reads_output = true;
  bool recomputable = false;  ///< whether there is `recompute`; it is worth it where the output takes much memory
  /// Whether the output's gradient may be handed over as two terms, `Arguments::second_output_gradient`.
  bool takes_two_gradients = false;
  /// The input whose gradient may lie where the output's has been; −1: there is none, or it has another format.
  int in_place_gradient = -1;
  Writes input_gradients = Writes::overwrites;
  Writes parameter_gradients = Writes::overwrites;
  std::int64_t forward_part = 0;   ///< doubles that `measure` leaves for all ranks; 0: it is not run
  std::int64_t backward_part = 0;  ///< and `measure_backward`
};

/// When and of what a call is made: what random numbers depend on.
struct Occasion {
  std::uint64_t seed = 0;         ///< of the run
  std::int64_t step = 0;          ///< of the run
  std::int64_t first_sample = 0;  ///< the place of the call's first sample in the step's batch, over all ranks
};

/// Pointers of one call, in the formats that the kernel was made for. Parameters, state and their gradients are plain
/// row-major whatever the activations' format is.
struct Arguments {
  std::span<const void* const> inputs;
  std::span<const void* const> parameters;
  std::span<void* const> state;  ///< updated by forward
  void* output = nullptr;        ///< forward, infer, weigh: overwritten; backward: what forward has left there
  void* saved = nullptr;
  const Occasion* occasion = nullptr;  ///< of forward and backward
  double* part = nullptr;              ///< of `measure` and `measure_backward`: overwritten
  std::span<const double> parts;       ///< of the pass after them: every rank's, one behind the other, the same on each
  // Of backward only (and `measure_backward`). A loss's output has one element of gradient, a double: what all its
  // gradients are multiplied by.
  void* output_gradient = nullptr;  ///< may be overwritten (a fused activation works in place), a loss's not
  /// What is to be added to it; null: nothing. Only for kernels that say that they take it; `measure_backward` adds it,
  /// and `backward` after that does not.
  const void* second_output_gradient = nullptr;
  std::span<void* const> input_gradients;      ///< a null entry is not computed (`Relu` and `Add`: may be
                                               ///< output_gradient itself, as Traits::in_place_gradient)
  std::span<void* const> parameter_gradients;  ///< sums over the samples of the batch
};

/// An operator's arithmetic for inputs of given formats. Its buffers are the caller's, so that memory can be planned
/// and reused. One thread at a time runs it.
class Kernel {
 public:
  /// @param traits  of which nothing may change afterwards
  explicit Kernel(Traits traits) : traits_(std::move(traits)) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  [[nodiscard]] const Traits& traits() const { return traits_; }
  /// What computes it, for people.
  [[nodiscard]] virtual std::string algorithm(Pass /*pass*/) const { return "loops"; }

  /// @throws Error{invalid_argument} for another number of tensors than it was made for; what the pass throws
  void run(Pass pass, const Arguments& call);

 protected:
  /// For kernels that know their format only when they are made.
  Kernel() = default;
  /// To be called once, in the constructor.
  void set(Traits traits) { traits_ = std::move(traits); }

 private:
  friend class Ops;
  virtual void forward(const Arguments& call) = 0;
  virtual void infer(const Arguments& call) { forward(call); }
  virtual void recompute(const Arguments& call);
  virtual void backward(const Arguments& call) = 0;
  virtual void weigh(const Arguments& call);
  virtual void measure(const Arguments& call);
  /// It has what `backward` has, but for the gradients that are to be written, and may overwrite output_gradient.
  virtual void measure_backward(const Arguments& call);

  Traits traits_;
  std::size_t parameters_ = 0;
  std::size_t state_ = 0;
};

/// Numbers that an update reads when it runs: in memory, so that the same call can be made again with others.
struct UpdateScalars {
  double learning_rate = 0;
  double gradient_scale = 1;  ///< what gradients are multiplied by first
  bool go = true;             ///< false: nothing is changed
};

/// Stochastic gradient descent over flat slices, in place.
///   g = gradient·gradient_scale + weight_decay·parameter;  v = momentum·v + g;  parameter −= learning_rate·(nesterov ?
///   g + momentum·v : v)
struct SgdStep {
  void* parameters = nullptr;
  const void* gradients = nullptr;
  void* velocity = nullptr;
  Count count;
  DType dtype = DType::float32;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  const UpdateScalars* scalars = nullptr;  ///< never null when the step is taken
};

/// averages = decay · averages + (1 − decay) · values, over flat slices, unless the update was not made.
struct AverageStep {
  void* averages = nullptr;
  const void* values = nullptr;
  Count count;
  DType dtype = DType::float32;
  double decay = 0;
  const UpdateScalars* scalars = nullptr;
};

/// How much a second all threads of a rank can do together.
struct MachineLimits {
  double bytes_per_second = 0;  ///< read and written, by a copy that is larger than caches
  double flops_per_second = 0;  ///< multiplications and additions, in registers
};

/// Whether a back end has kernels that store values in a 16-bit format.
struct HalfKernels {
  bool exist = false;
  /// By which the processor multiplies such values, e.g. "AMX"; empty: by none, so that kernels convert what they read
  /// to float32, and are slower than those of float32.
  std::string_view instructions;
};

struct Algorithms;
class Choices;

/// Makes kernels. One per rank; used by one thread, which may use `threads` of its own.
class Ops {
 public:
  virtual ~Ops() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  ///< "reference", "onednn"
  /// Whether kernels can be made for activations and parameters of this dtype.
  [[nodiscard]] virtual bool supports(DType dtype) const = 0;

  /// The operator's kernel for inputs of these formats, whose batch may be 0.
  /// @param reals  what parameters and result are, of operators none of whose inputs is real
  /// @throws Error{invalid_argument} if the operator cannot take them;
  ///         Error{unsupported} for another dtype, or if there is no kernel for it
  [[nodiscard]] std::unique_ptr<Kernel> make(const Operator& op, std::span<const Format> inputs,
                                             DType reals = DType::float32);
  /// The operator's kernel, where the back end has one, that stores values and their gradients in a 16-bit format
  /// itself, and reads them in it: its traits' formats are of that dtype. Sums are float32, as are parameters and their
  /// gradients. It reads parameters of rank 2 and more rounded to the format, others as they are.
  /// @param inputs  all real, float32 or `half`; float32 stands for the same layout in `half`
  /// @return null where there is none
  /// @throws Error{invalid_argument} if the operator cannot take the inputs
  [[nodiscard]] std::unique_ptr<Kernel> make_half(const Operator& op, std::span<const Format> inputs, DType half);
  /// Whether it has any of those, or, of rounded operators, whether they take them.
  [[nodiscard]] virtual HalfKernels half_kernels(DType /*half*/) const { return {}; }
  /// A format of the same layout, or of a similar one, in another dtype. @pre both are float32, or such that there are
  /// `half_kernels`
  [[nodiscard]] virtual Format stored_as(const Format& format, DType dtype) const {
    return Format::plain(format.shape, dtype);
  }

  /// Copies its one input to its output, which lies otherwise, or is of another dtype; it has no backward pass. What
  /// has fewer bits is rounded to nearest, ties to even.
  /// @throws Error{unsupported} for formats of another back end
  [[nodiscard]] virtual std::unique_ptr<Kernel> reorder(const Format& from, const Format& to) = 0;

  /// By what an operator's passes can be computed, for inputs of these formats, where there is more than one way, else
  /// empty: first what the back end's rule takes, then what differs from that in one pass, and in no format.
  /// @see ops/choices.hpp
  [[nodiscard]] virtual std::vector<Algorithms> candidates(const Operator& op, std::span<const Format> inputs) = 0;
  /// Kernels that are made from now on are computed by what these say, and by the back end's rule where they say
  /// nothing. @throws Error{unsupported} with the reason if it cannot be; nothing changes then
  virtual void use(const Choices& choices) = 0;
  /// Those in use: none at first.
  [[nodiscard]] virtual const Choices& choices() const = 0;

  /// The same back end, computing on one thread only, by the same choices. To be called on that thread, before kernels
  /// are made; they give the bits that this one gives if it has one thread, too.
  [[nodiscard]] virtual std::unique_ptr<Ops> another() const = 0;

  /// What values and their gradients are rounded to where they are stored, while parameters, their gradients and state
  /// are of `reals`: the same, unless it computes in a lower precision.
  [[nodiscard]] virtual DType values(DType reals) const { return reals; }

  /// What decides its bits beside the operands: versions, instruction sets and choices, for ranks to compare.
  [[nodiscard]] virtual std::string arithmetic() const = 0;

  /// Overwrites parameters and velocity.
  virtual void sgd(const SgdStep& step) = 0;
  /// Overwrites averages.
  virtual void average(const AverageStep& step) = 0;
  /// Σ x², in double, in an order that depends on nothing but the number of values.
  /// @throws Error{unsupported} unless they are float32 or float64
  [[nodiscard]] virtual double sum_of_squares(const ConstBuffer& values) = 0;

  /// Measures what the processors that operators use can do at best, in a few hundredths of a second.
  /// @throws Error{unsupported} unless the dtype is float32 or float64
  [[nodiscard]] virtual MachineLimits measure_limits(DType dtype) = 0;

 private:
  [[nodiscard]] virtual std::unique_ptr<Kernel> make_kernel(const Operator& op, std::span<const Format> inputs,
                                                            const Signature& signature, DType reals) = 0;
  [[nodiscard]] virtual std::unique_ptr<Kernel> make_half_kernel(const Operator& /*op*/,
                                                                 std::span<const Format> /*inputs*/,
                                                                 const Signature& /*signature*/, DType /*half*/) {
    return nullptr;
  }
};

/// By which kernels values get 16 bits.
enum class Halves {
  emulated,  ///< those of float32, behind which values are rounded; in memory they stay float32
  native,    ///< those that store 16 bits (`Ops::make_half`), and the others where there are none
};

/// Another back end's kernels, whose every stored value is one of a 16-bit format. As `Halves::emulated` it is rounded
/// behind a kernel of float32: what a processor with arithmetic of that format, and sums in float32, would compute. As
/// `Halves::native` that is what kernels themselves do, wherever there are such; they differ in the order of sums.
/// Rounded are (to nearest, ties to even, what is too large to infinity) results, gradients of values, and, in copies,
/// the parameters and inputs that convolutions, linear layers and LSTMs multiply. Parameters themselves, their
/// gradients, the parameters of normalization, statistics, and all that happens inside a kernel or a loss stay float32.
/// A sum of values that are not rounded is not, either.
///
/// Values that are rounded have formats of their own (`Format::native`), so that whoever brings one that is not, as a
/// batch's images, into the format that a kernel asks for rounds it. Their dtype is float32 where they are emulated and
/// `half` where they are not, and bytes follow it.
/// @param inner  that computes
/// @param half   DType::bfloat16 or DType::float16
/// @throws Error{invalid_argument} for another dtype; Error{unsupported} if `inner` does not compute in float32, or has
///         no native kernels and is to take them
std::unique_ptr<Ops> make_rounded_ops(std::unique_ptr<Ops> inner, DType half, Halves by = Halves::emulated);

}  // namespace lockstep::ops
