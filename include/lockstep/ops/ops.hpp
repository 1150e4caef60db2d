// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/base/tensor_spec.hpp"
#include "lockstep/ops/device.hpp"
#include "lockstep/ops/format.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "lockstep/ops/operators.hpp"
#include "lockstep/ops/step.hpp"

/// Kernels of operators: one interface, several compute libraries.
namespace lockstep::ops {

/// A pass of an operator. Every operator has `infer`, `forward` and `backward`, except those whose signature says that
/// they have no backward pass, of which only `infer` is run; losses also have `normalizer`. An operator that needs
/// statistics of all ranks writes its local statistics into `Arguments::part` by `measure`, before `forward`, and by
/// `measure_backward`, before `backward`. An operator whose result need not be stored has `recompute`.
enum class Pass {
  normalizer,  ///< computes only `LossSums::weight`, from targets only
  infer,       ///< forward with running statistics; nothing is kept for backward
  measure,
  forward,    ///< with the batch's statistics; keeps what backward reads
  recompute,  ///< after `forward` with the same inputs: the same output to the last bit, and nothing else
  measure_backward,
  backward,
};

/// Whether a pass overwrites its result or accumulates into it.
enum class Writes { overwrites, accumulates };

/// Properties of a kernel that the planner of a step needs.
struct Traits {
  std::vector<Format> inputs;  ///< accepted formats; callers convert other formats first
  Format output;
  Bytes saved;      ///< size of what forward keeps for backward of the same batch
  Bytes workspace;  ///< @see Kernel::workspace
  /// By parameter: the size of a copy in the kernel's own layout, which it is passed instead of the parameter; 0: it is
  /// passed the parameter. Empty: all zeros. @see Ops::pack
  std::vector<Bytes> packed;
  bool backward_reads_inputs = true;        ///< false: their memory can be reused in between
  bool backward_reads_first_input = false;  ///< if it reads inputs: only the first one
  bool backward_reads_output = true;
  bool recomputable = false;  ///< whether the kernel has `recompute`, which pays off for large outputs
  /// Whether `backward` may run in two calls: first without the inputs' gradients, then with an empty
  /// `Arguments::parameter_gradients`, so that the parameters' gradients can be reduced meanwhile. The second call
  /// reads no inputs.
  bool separates_gradients = false;
  /// Whether the output's gradient may be passed as two summands, `Arguments::second_output_gradient`.
  bool takes_two_gradients = false;
  /// The input whose gradient may overwrite the output's gradient; −1: none, or it has another format.
  int in_place_gradient = -1;
  Writes input_gradients = Writes::overwrites;
  Writes parameter_gradients = Writes::overwrites;
  std::int64_t forward_part = 0;   ///< number of doubles in the local statistics of `measure`; 0: it is not run
  std::int64_t backward_part = 0;  ///< the same for `measure_backward`
  /// Number of doubles that `forward` leaves in `Arguments::part` for the batch norm that reads its result, with
  /// `Convolution::statistics`; 0: none. They are private to the compute library.
  std::int64_t statistics = 0;
};

/// Pointers of one call, in the formats that the kernel was made for. Parameters, state and their gradients are always
/// plain row-major, except parameters with a copy of `Traits::packed`.
struct Arguments {
  std::span<const void* const> inputs;
  std::span<const void* const> parameters;
  std::span<void* const> state;  ///< updated by forward
  void* output = nullptr;        ///< forward, infer, normalizer: overwritten; backward: the result of forward
  void* saved = nullptr;
  void* workspace = nullptr;        ///< `Traits::workspace` bytes, aligned to 256 bytes
  const RngKey* rng_key = nullptr;  ///< for forward and backward
  double* part = nullptr;           ///< local statistics of `measure` and `measure_backward`: overwritten
  /// For the pass after them: gathered statistics of all ranks, the same on each. For the first pass of a batch norm
  /// behind kernels with `Traits::statistics`: these, input by input; empty: it finds its statistics itself.
  std::span<const double> parts;
  // The following are for backward and `measure_backward` only. The gradient of a loss's output has one element, a
  // double, by which all its gradients are multiplied.
  void* output_gradient = nullptr;  ///< may be overwritten (a fused activation works in place), except that of a loss
  /// A second summand of the output's gradient; null: none. Only for kernels with `takes_two_gradients`. If
  /// `measure_backward` runs, it adds the summand, and `backward` does not.
  const void* second_output_gradient = nullptr;
  std::span<void* const> input_gradients;  ///< a null entry is not computed (`Relu` and `Add`: may be
                                           ///< output_gradient itself, as Traits::in_place_gradient)
  /// Sums over the samples of the batch. Empty: they are there already, @see Traits::separates_gradients
  std::span<void* const> parameter_gradients;
  Fault* fault = nullptr;       ///< gets the first bad value; null: bad values are not reported
  std::int32_t node = -1;       ///< for `fault`
  Queue queue = Queue::host();  ///< what the pass is submitted to

  /// Reports a bad value that the host has read.
  void report(FaultCode code, std::int64_t sample, std::int64_t value, std::int64_t limit) const {
    ops::report(fault, {code, node, sample, value, limit});
  }
};

/// An operator's implementation for inputs of given formats. The caller owns the buffers, so that memory can be planned
/// and reused. One thread at a time runs it.
class Kernel {
 public:
  /// @param traits  the properties, which do not change afterwards
  explicit Kernel(Traits traits) : traits_(std::move(traits)) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  [[nodiscard]] const Traits& traits() const { return traits_; }
  /// Size of what each pass may overwrite while it runs. It waits for a kernel whose code is still being compiled.
  /// @throws Error{unsupported} if the library learns only then that it cannot compute the operator
  [[nodiscard]] virtual Bytes workspace() const { return traits_.workspace; }
  /// A readable name of the algorithm.
  [[nodiscard]] virtual std::string algorithm(Pass /*pass*/) const { return "loops"; }

  /// @throws Error{invalid_argument} for another number of tensors than the kernel was made for; what the pass throws
  void run(Pass pass, const Arguments& call);

 protected:
  /// For kernels that determine their format in their own constructor.
  Kernel() = default;
  /// Is called once, in the constructor.
  void set(Traits traits) { traits_ = std::move(traits); }

 private:
  friend class Ops;
  virtual void forward(const Arguments& call) = 0;
  virtual void infer(const Arguments& call) { forward(call); }
  virtual void recompute(const Arguments& call);
  virtual void backward(const Arguments& call) = 0;
  virtual void normalizer(const Arguments& call);
  virtual void measure(const Arguments& call);
  /// Has the arguments of `backward` except the gradients to write, and may overwrite output_gradient.
  virtual void measure_backward(const Arguments& call);

  Traits traits_;
  std::size_t parameters_ = 0;
  std::size_t state_ = 0;
};

/// A copy of a parameter in the layout of a kernel.
struct PackedParameter {
  const Kernel* kernel = nullptr;
  int parameter = 0;           ///< index among the operator's parameters
  const void* from = nullptr;  ///< the parameter, plain row-major
  void* to = nullptr;          ///< `Traits::packed` bytes, overwritten
};

/// Peak rates of all threads of a rank together.
struct MachineLimits {
  double bytes_per_second = 0;  ///< of a copy larger than the caches, reads plus writes
  double flops_per_second = 0;  ///< multiplications and additions in registers; 0: not measured
};

/// Whether a compute library has native half-precision kernels.
struct HalfKernels {
  bool exist = false;
  /// The processor's instructions for such values, for instance "AMX"; empty: none, so that kernels convert to float32.
  std::string_view instructions;
  /// Whether these kernels take less time than those of float32 and rounding afterwards.
  bool are_fast = false;
};

/// Describes a bad value. @param sample  names the sample in the text, for instance "sample 3"
std::string text_of(const Fault& fault, const std::string& sample);

/// Calls its argument, with member and members, on each thread of a team, and waits for all. The argument must not
/// throw.
using OnTeam = std::function<void(const std::function<void(int member, int members)>&)>;

/// A compute library: makes kernels. Each rank has one; one thread uses it, and kernels may use threads of their own.
class Ops {
 public:
  virtual ~Ops() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  ///< "reference", "onednn"
  /// The name under which its kernel choices are kept: `name`, or that of the library whose kernels it wraps.
  [[nodiscard]] virtual std::string_view library() const { return name(); }
  /// Whether it has kernels for activations and parameters of this dtype.
  [[nodiscard]] virtual bool supports(DType dtype) const = 0;

  /// Makes the operator's kernel for inputs of these formats, whose batch may be 0.
  /// @param reals  dtype of parameters and result, for operators without real inputs
  /// @throws Error{invalid_argument} if the operator cannot take the inputs;
  ///         Error{unsupported} for another dtype, or without a kernel
  [[nodiscard]] KernelPtr make(const Operator& op, Formats inputs, DType reals = DType::float32);
  /// Makes the operator's native half-precision kernel, if the library has one. It reads and stores activations and
  /// their gradients in the 16-bit format, which is the dtype of the formats in its traits. Sums, parameters and their
  /// gradients are float32. It rounds parameters of rank 2 and more when it reads them.
  /// @param inputs  all real, in float32 or `half`; float32 stands for the same layout in `half`
  /// @return null if there is no such kernel
  /// @throws Error{invalid_argument} if the operator cannot take the inputs
  [[nodiscard]] KernelPtr make_half(const Operator& op, Formats inputs, DType half);
  /// Whether the library has native half-precision kernels; for rounded operators, whether they use them.
  [[nodiscard]] virtual HalfKernels half_kernels(DType /*half*/) const { return {}; }
  /// A format with the same or a similar layout in another dtype. @pre both dtypes are float32 or have `half_kernels`
  [[nodiscard]] virtual Format stored_as(const Format& format, DType dtype) const {
    return Format::plain(format.shape, dtype);
  }

  /// Whether it has kernels for convolutions with `Convolution::statistics`, which its batch norms take.
  [[nodiscard]] virtual bool sums_in_convolutions() const { return false; }
  /// Whether it has kernels for batch norms with `BatchNorm::normalizes_residual` and with `BatchNorm::pool`.
  [[nodiscard]] virtual bool fuses_batch_norms() const { return false; }

  /// Makes a kernel that converts its input to another layout or dtype; it has no backward pass. Fewer bits are rounded
  /// to nearest, ties to even. @pre both formats are plain, or this library's own
  /// @throws Error{unsupported} if the library has no formats of its own
  [[nodiscard]] virtual KernelPtr reorder(const Format& from, const Format& to) = 0;

  /// Whether the library has `convert_bytes`.
  [[nodiscard]] virtual bool converts_bytes() const { return false; }
  /// Makes a kernel that converts plain uint8 to the real numbers that they stand for, in another format; it has no
  /// backward pass. In float32 they are those of `Normalization::table`, rounded.
  /// @throws Error{unsupported} unless the library `converts_bytes`
  [[nodiscard]] virtual KernelPtr convert_bytes(const Normalization& numbers, const Format& to);

  /// The candidate algorithms for an operator's passes with inputs of these formats; empty if there is only one way.
  /// The first one is the rule's choice; the others differ from it in one pass and have the same formats.
  /// @see ops/kernel_choices.hpp
  [[nodiscard]] virtual std::vector<KernelAlgorithms> candidates(const Operator& op, Formats inputs) = 0;
  /// Sets the kernel choices for kernels that are made from now on; operators without an entry use the library's rule.
  /// @throws Error{unsupported} with the reason if a choice is not available, and then nothing changes
  virtual void use(const KernelChoices& choices) = 0;
  /// The kernel choices in use; empty at first.
  [[nodiscard]] virtual const KernelChoices& choices() const = 0;

  /// Makes the same compute library with one thread and the same choices. Call it on that thread, before kernels are
  /// made. Its kernels give the same bits as this library's with one thread.
  [[nodiscard]] virtual std::unique_ptr<Ops> another() const = 0;

  /// The threads of the host with which the library computes.
  [[nodiscard]] virtual OnTeam on_team() const {
    return [](const std::function<void(int, int)>& body) { body(0, 1); };
  }

  /// The activation dtype, while parameters, their gradients and state have the dtype `reals`: the same, except in half
  /// precision.
  [[nodiscard]] virtual DType values(DType reals) const { return reals; }

  /// Everything that decides the bits beside the operands: versions, instruction sets and choices. Ranks compare it.
  [[nodiscard]] virtual std::string arithmetic() const = 0;

  /// Makes the copies of parameters that kernels of this library read. A step begins with it.
  virtual void pack(std::span<const PackedParameter> /*parameters*/, Queue /*queue*/) {}

  /// Overwrites weights and optimizer state.
  /// @param steps  have the same dtype and queue
  /// @throws Error{unsupported} unless the dtype is float32 or float64
  virtual void update(std::span<const UpdateStep> steps) = 0;
  /// Adds to `UpdateStep::squares` what the trust ratio needs, in an order that depends on the number of values only.
  /// For lamb it also overwrites both moments. lamb, and lars with `squares`, need it once before `update`.
  /// @param steps  as for update @throws as update
  virtual void measure_update(std::span<const UpdateStep> steps) = 0;
  /// Overwrites EMA weights.
  virtual void average(const AverageStep& step) = 0;
  /// Adds Σ x² in double to `*sum`, in an order that depends on the number of values only.
  /// @throws Error{unsupported} unless the values are float32 or float64
  virtual void add_squares(const ConstBuffer& values, double* sum, Queue queue) = 0;
  /// Checks adjacent tensors at once: adds 1 to `counts[k]`, or sets it to 1, unless all values from `ends[k − 1]` to
  /// `ends[k]` are finite.
  /// @param ends  ascending; the last one is the number of values. They need not outlive the call.
  virtual void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts,
                                Queue queue);
  /// Computes scalars of a step. @see compute
  virtual void compute_scalars(StepStage stage, const StepBlock& block, Queue queue);
  /// The device on which the kernels run.
  [[nodiscard]] virtual const ComputeDevice& device() const { return host_device(); }

  /// Measures the peak rates of the processors that operators use, in a few hundredths of a second.
  /// @throws Error{unsupported} unless the dtype is float32 or float64
  [[nodiscard]] virtual MachineLimits measure_limits(DType dtype) = 0;

 private:
  [[nodiscard]] virtual KernelPtr make_kernel(const Operator& op, Formats inputs, const Signature& signature,
                                              DType reals) = 0;
  [[nodiscard]] virtual KernelPtr make_half_kernel(const Operator& /*op*/, Formats /*inputs*/,
                                                   const Signature& /*signature*/, DType /*half*/) {
    return nullptr;
  }
};

/// The way in which half precision is computed.
enum class HalfPrecision {
  emulated,  ///< float32 kernels, after which values are rounded; memory holds float32
  native,    ///< kernels that store 16 bits (`Ops::make_half`), and emulation without such a kernel
};

/// Wraps a compute library so that every stored activation is a value of a 16-bit format. With
/// `HalfPrecision::emulated`, values are rounded after a float32 kernel: the result is that of a processor with
/// arithmetic in the format and sums in float32. With `HalfPrecision::native`, native kernels do this where they exist;
/// they differ in the order of sums. Rounded (to nearest, ties to even, overflow to infinity) are results, gradients of
/// activations, and copies of the parameters and inputs that convolutions, linear layers and LSTMs multiply. Parameters
/// themselves, their gradients, the parameters of normalization, statistics, and intermediate values inside a kernel or
/// a loss stay float32. A sum of values that are not rounded is not rounded either.
///
/// Rounded values have formats of their own (`Format::native`). Converting a value that is not rounded, such as the
/// images of a batch, into the format of a kernel therefore rounds it. The dtype is float32 with emulation and `half`
/// otherwise, and `bytes` follows the dtype.
/// @param inner  the library that computes
/// @param half   DType::bfloat16 or DType::float16
/// @throws Error{invalid_argument} for another dtype; Error{unsupported} if `inner` does not compute in float32, or if
/// native kernels are requested and it has none
std::unique_ptr<Ops> make_rounded_ops(std::unique_ptr<Ops> inner, DType half,
                                      HalfPrecision by = HalfPrecision::emulated);

}  // namespace lockstep::ops
