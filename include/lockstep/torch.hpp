// SPDX-License-Identifier: Apache-2.0
#pragma once

// For programs that train with libtorch 2.3 or newer on CPUs. It is the only public header that includes torch/torch.h,
// so lockstep/lockstep.hpp does not include it. Programs that include it link libtorch.

#include <torch/torch.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/ddp/checkpoint.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/ddp/process_group.hpp"
#if __has_include("lockstep/mpi/world.hpp")  // not in an installation without MPI
#include "lockstep/mpi/world.hpp"
#endif

/// After `using namespace lockstep`, the name `torch` is ambiguous. Put two colons before it for libtorch's namespace.
namespace lockstep::torch {

/// Options of a DistributedDataParallel. They must be the same on all ranks, except for the observer.
struct DistributedOptions {
  Bytes bucket{25 << 20};  ///< size of a bucket of gradients, as `DataParallelOptions::bucket`
  /// Whether finish() overwrites the module's buffers, such as running statistics, with rank 0's on all ranks. PyTorch
  /// does this before the next forward, which has the same effect.
  bool broadcast_buffers = true;
  /// Whether a parameter may have no gradient in a step, on any rank or on some ranks whose weight is above 0. If no
  /// rank has one, it is undefined or zero, as in a program of one process.
  bool allow_unused = false;
  std::int64_t compare_every = 100;  ///< as `DataParallelOptions::compare_every`
  Observer* observer = nullptr;      ///< as `DataParallelOptions::observer`
};

namespace detail {

/// @throws Error{unsupported} for a type whose gradients cannot be reduced
inline DType dtype_of(::at::ScalarType type) {
  switch (type) {
    case ::at::kFloat: return DType::float32;
    case ::at::kDouble: return DType::float64;
    case ::at::kHalf: return DType::float16;
    case ::at::kBFloat16: return DType::bfloat16;
    default:
      throw Error(ErrorCode::unsupported, std::string(::c10::toString(type)) +
                                              " is no type whose gradients are reduced: use Float, Double, Half or "
                                              "BFloat16");
  }
}

/// @throws Error{unsupported} for a type that checkpoints do not have
inline DType stored_dtype_of(const std::string& name, ::at::ScalarType type) {
  switch (type) {
    case ::at::kLong: return DType::int64;
    case ::at::kInt: return DType::int32;
    case ::at::kByte: return DType::uint8;
    case ::at::kShort: return DType::int16;
    case ::at::kChar: return DType::int8;
    case ::at::kBool: return DType::boolean;
    case ::at::kComplexFloat: return DType::complex64;
    case ::at::kFloat:
    case ::at::kDouble:
    case ::at::kHalf:
    case ::at::kBFloat16: return dtype_of(type);
    default:
      throw Error(ErrorCode::unsupported, "'" + name + "' is of " + ::c10::toString(type) +
                                              ", which checkpoints do not have: use another type");
  }
}

/// Receives the parts of what an optimizer keeps for a parameter.
class StateParts {
 public:
  virtual ~StateParts() = default;
  /// Takes the number of steps.
  virtual void steps(std::int64_t& number) = 0;
  /// Takes a tensor. @param begins  whether it is there, with zeros, before the first step
  virtual void tensor(const char* name, ::at::Tensor& part, bool begins) = 0;
  /// Whether the optimizer has taken no step with the parameter.
  [[nodiscard]] virtual bool is_new() const = 0;
};

/// What an optimizer of libtorch keeps for a parameter: its types, and `visit`, which names the parts.
template <typename Optimizer>
struct OptimizerState;

/// What Adam and its relatives keep.
template <typename OptionsType, typename StateType>
struct AdamState {
  using Options = OptionsType;
  using State = StateType;
  static void visit(State& state, const Options& options, StateParts& parts) {
    parts.steps(state.step());
    parts.tensor("exp_avg", state.exp_avg(), true);
    parts.tensor("exp_avg_sq", state.exp_avg_sq(), true);
    parts.tensor("max_exp_avg_sq", state.max_exp_avg_sq(), options.amsgrad());
  }
};
template <>
struct OptimizerState<::torch::optim::Adam> : AdamState<::torch::optim::AdamOptions, ::torch::optim::AdamParamState> {};
template <>
struct OptimizerState<::torch::optim::AdamW>
    : AdamState<::torch::optim::AdamWOptions, ::torch::optim::AdamWParamState> {};

/// What SGD keeps: its momentum.
template <>
struct OptimizerState<::torch::optim::SGD> {
  using Options = ::torch::optim::SGDOptions;
  using State = ::torch::optim::SGDParamState;
  static void visit(State& state, const Options& options, StateParts& parts) {
    if (parts.is_new() && options.momentum() != 0 && options.dampening() != 0)
      throw Error(
          ErrorCode::unsupported,
          "with dampening, the momentum of SGD has no value before the first step: take a step first, or add it "
          "without dampening");
    parts.tensor("momentum_buffer", state.momentum_buffer(), options.momentum() != 0);
  }
};

/// What RMSprop keeps.
template <>
struct OptimizerState<::torch::optim::RMSprop> {
  using Options = ::torch::optim::RMSpropOptions;
  using State = ::torch::optim::RMSpropParamState;
  static void visit(State& state, const Options& options, StateParts& parts) {
    parts.steps(state.step());
    parts.tensor("square_avg", state.square_avg(), true);
    parts.tensor("momentum_buffer", state.momentum_buffer(), options.momentum() > 0);
    parts.tensor("grad_avg", state.grad_avg(), options.centered());
  }
};

/// What Adagrad keeps; its constructor has begun it.
template <>
struct OptimizerState<::torch::optim::Adagrad> {
  using Options = ::torch::optim::AdagradOptions;
  using State = ::torch::optim::AdagradParamState;
  static void visit(State& state, const Options& /*options*/, StateParts& parts) {
    parts.steps(state.step());
    parts.tensor("sum", state.sum(), false);
  }
};

/// An optimizer whose state a checkpoint takes.
template <typename Optimizer>
concept KnownOptimizer = requires {
  typename OptimizerState<Optimizer>::State;
};

/// A tensor with the name that identifies it on all ranks.
struct NamedTensor {
  std::string name;
  ::at::Tensor tensor;
};

/// One rank's copy of a module. It contains everything that does not depend on the module's type.
class ReplicatedModule {
 public:
  /// @throws as DistributedDataParallel
  ReplicatedModule(ProcessGroup& group, const ::torch::nn::Module& module, const DistributedOptions& options)
      : group_(&group), options_(options) {
    const ::at::NoGradGuard no_grad;
    std::set<const void*> known;  // a tensor may be registered under several names
    for (const auto& item : module.named_parameters()) {
      if (!known.insert(item.value().unsafeGetTensorImpl()).second) continue;
      check(item.key(), item.value());
      if (item.value().requires_grad()) {
        Slot& slot = slots_.emplace_back();
        slot.name = item.key();
        slot.parameter = item.value();
        slot.home = item.value().detach();
      } else {
        frozen_.push_back({item.key(), item.value()});
      }
    }
    for (const auto& item : module.named_buffers()) {
      if (!item.value().defined() || !known.insert(item.value().unsafeGetTensorImpl()).second) continue;
      check(item.key(), item.value());
      buffers_.push_back({item.key(), item.value()});
    }
    require_equal_modules();
    broadcast(frozen_);
    broadcast(buffers_);
    make_parallel();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].accumulator = ::torch::autograd::impl::grad_accumulator(slots_[i].parameter);
      slots_[i].hook = slots_[i].accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
    }
  }
  ReplicatedModule(const ReplicatedModule&) = delete;
  ReplicatedModule& operator=(const ReplicatedModule&) = delete;
  ~ReplicatedModule() {
    for (const Slot& slot : slots_)
      if (slot.accumulator) slot.accumulator->del_post_hook(slot.hook);
  }

  /// @param weight  empty: gradients are divided by the number of ranks
  DataParallel::Step finish(std::optional<double> weight, std::span<double> sums) {
    const ::at::NoGradGuard no_grad;
    require_frozen();
    keep_values_home();
    if (parallel_->is_in_no_sync()) return parallel_->finish(weight.value_or(1), sums);
    for (std::size_t i = slots_.size(); i > 0; --i) {
      const Slot& slot = slots_[i - 1];
      if (slot.has_accumulated && !slot.is_ready && slot.parameter.grad().defined()) publish(i - 1);
    }
    for (Slot& slot : slots_) slot.has_accumulated = slot.is_ready = false;
    DataParallel::Step step = parallel_->finish(weight.value_or(1), sums);
    // publish() has divided by the number of ranks.
    const double factor = weight && step.weight > 0 ? group_->size() / step.weight : 1;
    std::vector<bool> is_unused(slots_.size());
    for (const int parameter : step.unused) is_unused[static_cast<std::size_t>(parameter)] = true;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (is_unused[i]) continue;
      if (factor != 1) slots_[i].view.mul_(factor);
      slots_[i].parameter.mutable_grad() = slots_[i].view;
    }
    if (options_.broadcast_buffers) broadcast(buffers_);
    return step;
  }

  /// Does what DistributedDataParallel::add_to does.
  void add_to(Checkpoint& checkpoint) {
    for_each_tensor([&](const std::string& name, const ::at::Tensor& tensor, const char* /*kind*/) {
      checkpoint.add_to_model(name, buffer_of(name, tensor), tensor.sizes().vec());
    });
  }

  /// Does the same with an optimizer.
  template <typename Optimizer>
  void add_to(Checkpoint& checkpoint, Optimizer& optimizer) {
    using Known = OptimizerState<Optimizer>;
    int index = 0;
    for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
      auto& group = optimizer.param_groups()[g];
      auto& options = static_cast<typename Known::Options&>(group.options());
      checkpoint.add("optimizer.lr." + std::to_string(g), options.lr());
      for (const ::at::Tensor& parameter : group.params()) {
        const std::string prefix = "optimizer." + name_of(parameter, index++) + '.';
        auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
        AddedParts parts(*this, checkpoint, prefix, state ? ::at::Tensor() : parameter.detach());
        if (!state) state = std::make_unique<typename Known::State>();
        Known::visit(static_cast<typename Known::State&>(*state), options, parts);
      }
    }
  }

  /// Does what DistributedDataParallel::no_sync does.
  auto no_sync(bool on) { return parallel_->no_sync(on); }
  /// The object that reduces the gradients.
  [[nodiscard]] DataParallel& parallel() { return *parallel_; }

 private:
  /// Called by autograd when a gradient has been accumulated.
  struct Hook final : ::torch::autograd::FunctionPostHook {
    Hook(ReplicatedModule& replica_in, std::size_t index_in) : replica(replica_in), index(index_in) {}
    ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& outputs,
                                                const ::torch::autograd::variable_list& /*inputs*/) override {
      replica.accumulated(index);
      return outputs;
    }
    ReplicatedModule& replica;
    std::size_t index;
  };
  /// Adds what an optimizer keeps for a parameter to a checkpoint.
  class AddedParts final : public StateParts {
   public:
    /// @param fresh  the parameter, if its state is new
    AddedParts(const ReplicatedModule& module, Checkpoint& checkpoint, std::string prefix, ::at::Tensor fresh)
        : module_(module), checkpoint_(checkpoint), prefix_(std::move(prefix)), fresh_(std::move(fresh)) {}
    void steps(std::int64_t& number) override { checkpoint_.add(prefix_ + "step", number); }
    void tensor(const char* name, ::at::Tensor& part, bool begins) override {
      if (is_new() && begins) part = ::torch::zeros_like(fresh_);
      if (part.defined()) checkpoint_.add(prefix_ + name, module_.buffer_of(prefix_ + name, part), part.sizes().vec());
    }
    [[nodiscard]] bool is_new() const override { return fresh_.defined(); }

   private:
    const ReplicatedModule& module_;
    Checkpoint& checkpoint_;
    std::string prefix_;
    ::at::Tensor fresh_;
  };
  using Accumulator = decltype(::torch::autograd::impl::grad_accumulator(std::declval<::at::Tensor>()));

  /// A parameter that requires a gradient.
  struct Slot {
    std::string name;
    ::at::Tensor parameter;
    ::at::Tensor home;             // the memory of the parameter's values that DataParallel knows
    ::at::Tensor view;             // view of the gradient in the memory where it is reduced
    Accumulator accumulator{};     // kept here because the parameter holds it only weakly
    std::uintptr_t hook = 0;       // key of the hook in the accumulator
    bool has_accumulated = false;  // a gradient was accumulated under no_sync()
    bool is_ready = false;
  };

  [[nodiscard]] Error refusal(ErrorCode code, const std::string& why, const std::string& label = {}) const {
    ErrorContext context;
    context.label = label;
    context.rank = group_->rank().value;
    context.host = group_->host();
    return {code, why, context};
  }

  /// Calls `action` with name, tensor and kind of each parameter and buffer.
  template <typename Action>
  void for_each_tensor(const Action& action) const {
    for (const Slot& slot : slots_) action(slot.name, slot.home, "parameter");
    for (const NamedTensor& item : frozen_) action(item.name, item.tensor, "frozen");
    for (const NamedTensor& item : buffers_) action(item.name, item.tensor, "buffer");
  }

  /// Returns the memory of a tensor for a checkpoint.
  [[nodiscard]] Buffer buffer_of(const std::string& name, const ::at::Tensor& tensor) const {
    if (!tensor.is_contiguous())
      throw refusal(ErrorCode::unsupported, "'" + name + "' is not row-major, as files of tensors are", name);
    return {tensor.data_ptr(), {tensor.numel()}, stored_dtype_of(name, tensor.scalar_type())};
  }

  /// Returns the parameter's name in the module, or its place in the optimizer if it is not of the module.
  [[nodiscard]] std::string name_of(const ::at::Tensor& parameter, int place) const {
    for (const Slot& slot : slots_)
      if (slot.parameter.is_same(parameter)) return slot.name;
    for (const NamedTensor& item : frozen_)
      if (item.tensor.is_same(parameter)) return item.name;
    return std::to_string(place);
  }

  void check(const std::string& name, const ::at::Tensor& tensor) const {
    if (tensor.is_cpu() && tensor.layout() == ::at::kStrided && tensor.is_non_overlapping_and_dense()) return;
    std::ostringstream what;
    what << "'" << name << "' is on " << tensor.device() << (tensor.layout() == ::at::kStrided ? "" : " and sparse")
         << ": parameters and buffers have to be dense and on the CPU";
    throw refusal(ErrorCode::unsupported, what.str(), name);
  }

  /// Compares the modules of all ranks. It runs before anything whose size depends on the module is exchanged.
  void require_equal_modules() {
    Layout layout;
    for_each_tensor([&](const std::string& name, const ::at::Tensor& tensor, const char* kind) {
      std::ostringstream text;
      text << kind << ' ' << name << ' ' << tensor.scalar_type() << ' ' << tensor.sizes() << ' ' << tensor.strides();
      layout.add(text.str(), {1});
    });
    const std::vector<int> others = ranks_unlike_zero(group_->control(), layout.hash(), "module");
    if (others.empty()) return;
    throw refusal(ErrorCode::mismatch,
                  "the modules of the ranks named here have other parameters or buffers than rank 0's, by name, type, "
                  "size or memory format; here are " +
                      std::to_string(layout.tensors().size()) + ": build the same module on all ranks")
        .naming_also(others)
        .on_every_rank();
  }

  void make_parallel() {
    std::vector<Parameter> parameters;
    for (const Slot& slot : slots_) {
      if (slot.home.scalar_type() != slots_[0].home.scalar_type()) throw of_another_type(slot);
      Buffer value{slot.home.data_ptr(), {slot.home.numel()}, dtype_of(slot.home.scalar_type())};
      parameters.push_back({slot.name, value, {}});
    }
    DataParallelOptions options;
    options.bucket = options_.bucket;
    options.compare_every = options_.compare_every;
    options.allow_unused = options_.allow_unused;
    options.observer = options_.observer;
    parallel_ = std::make_shared<DataParallel>(*group_, std::move(parameters), options);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      // The tensor shares ownership of the DataParallel, so its memory lives as long as anybody holds the gradient.
      slot.view = ::at::from_blob(
          parallel_->gradient(static_cast<int>(i)).data, slot.home.sizes(), slot.home.strides(),
          [keep = parallel_](void*) {}, slot.home.options());
    }
  }

  /// Overwrites all ranks' tensors with rank 0's.
  void broadcast(const std::vector<NamedTensor>& tensors) {
    if (tensors.empty() || group_->size() == 1) return;
    packed_.clear();
    for (const auto& [name, tensor] : tensors) {
      const auto* begin = static_cast<const std::uint8_t*>(tensor.data_ptr());
      packed_.insert(packed_.end(), begin, begin + tensor.nbytes());
    }
    const Progress::Turn turn(group_->progress());
    group_->control().broadcast(std::span(packed_), {0}, Queue::host(), "buffers").wait();
    const std::uint8_t* from = packed_.data();
    for (const auto& [name, tensor] : tensors) {
      std::memcpy(tensor.data_ptr(), from, tensor.nbytes());
      from += tensor.nbytes();
    }
  }

  /// Runs on an autograd thread.
  void accumulated(std::size_t index) {
    parallel_->is_in_no_sync() ? void(slots_[index].has_accumulated = true) : publish(index);
  }

  /// Copies the parameter's current gradient to the memory where it is reduced, and makes that memory the gradient. If
  /// zero_grad() has dropped the previous gradient, autograd has allocated a new one.
  void publish(std::size_t index) {
    Slot& slot = slots_[index];
    if (slot.is_ready) {
      throw refusal(
          ErrorCode::invalid_argument,
          "the gradient of '" + slot.name +
              "' came twice in one step: call finish() after each backward(), or no_sync() before all but the last "
              "and around the backward() of another model's loss",
          slot.name);
    }
    const ::at::NoGradGuard no_grad;
    ::at::Tensor& gradient = slot.parameter.mutable_grad();
    if (gradient.layout() != ::at::kStrided || !gradient.is_cpu())
      throw refusal(ErrorCode::unsupported, "the gradient of '" + slot.name + "' is sparse: use dense ones", slot.name);
    if (!mean_factor_.defined())
      mean_factor_ = ::at::scalar_tensor(1.0 / group_->size(), slot.home.options().dtype(::at::kDouble));
    ::at::mul_out(slot.view, gradient, mean_factor_);
    if (!gradient.is_same(slot.view)) gradient = slot.view;
    slot.is_ready = true;
    parallel_->ready(static_cast<int>(index));
    parallel_->progress();
  }

  void require_frozen() const {
    for (const auto& [name, tensor] : frozen_) {
      if (!tensor.requires_grad()) continue;
      throw refusal(ErrorCode::invalid_argument,
                    "'" + name +
                        "' needs a gradient now, and did not when DistributedDataParallel was made, so that nobody "
                        "reduces it: make a new one",
                    name);
    }
  }

  /// Loading a checkpoint, as torch::load does, may give a parameter other memory. This copies the new values back to
  /// the memory that DataParallel knows.
  void keep_values_home() {
    for (Slot& slot : slots_) {
      const ::at::Tensor& now = slot.parameter;
      if (now.data_ptr() == slot.home.data_ptr() && now.strides() == slot.home.strides()) continue;
      if (now.sizes() != slot.home.sizes() || now.scalar_type() != slot.home.scalar_type() || !now.is_cpu()) {
        throw refusal(ErrorCode::invalid_argument,
                      "'" + slot.name +
                          "' has another size, type or device than when DistributedDataParallel was made: change the "
                          "module first, then make that",
                      slot.name);
      }
      slot.home.copy_(now.detach());
      slot.parameter.set_data(slot.home);
    }
  }

  [[nodiscard]] Error of_another_type(const Slot& slot) const {
    const auto text = [](const Slot& which) {
      return "'" + which.name + "' is " + ::c10::toString(which.home.scalar_type());
    };
    return refusal(ErrorCode::invalid_argument,
                   text(slot) + " and " + text(slots_[0]) +
                       ": parameters that need gradients have to be of one type; for mixed precision keep them in "
                       "Float and use autocast",
                   slot.name)
        .on_every_rank();
  }

  ProcessGroup* group_;
  DistributedOptions options_;
  std::vector<Slot> slots_;
  std::vector<NamedTensor> frozen_;  // parameters without gradient
  std::vector<NamedTensor> buffers_;
  std::vector<std::uint8_t> packed_;
  std::shared_ptr<DataParallel> parallel_;
  ::at::Tensor mean_factor_;
};

}  // namespace detail

/// A module holder: one made by TORCH_MODULE, such as torch::nn::Sequential, or a std::shared_ptr to a module.
template <typename T>
concept ModuleHolder = requires(T& holder) {
  { *holder } -> std::convertible_to<const ::torch::nn::Module&>;
};

/// Trains one module on all ranks, each with its own samples, as PyTorch's DistributedDataParallel does:
///
///   torch::nn::Sequential net(…);
///   lockstep::torch::DistributedDataParallel model(group, net);
///   optimizer.zero_grad();
///   loss(model.forward(x), y).backward();
///   model.finish();  // gradients are now means over all ranks
///   optimizer.step();
///
/// Gradients are reduced while backward still runs. `zero_grad()` may drop them (the default of libtorch; each gradient
/// is then copied once) or set them to zero. If the program or a hook replaces a gradient before backward, or between
/// backward() calls under no_sync(), the new one is reduced. Create the object on the group's thread; backward and
/// finish() may run on other threads, one after the other. Afterwards do not change the type or size of the module's
/// tensors, nor which parameters require a gradient. You may load a checkpoint into the module on all ranks. Move-only.
/// After the destructor the module is an ordinary one again and keeps its gradients.
template <ModuleHolder Module>
class DistributedDataParallel {
 public:
  /// Overwrites the parameters and buffers of all ranks with rank 0's. Collective.
  /// @param group  must outlive this object
  /// @throws Error{mismatch} on every rank, naming the ranks, if their options differ or their modules differ in names,
  ///         types, sizes or memory formats of parameters or buffers; Error{unsupported} that names a tensor that is
  ///         not dense or not on the CPU; Error{invalid_argument} if parameters have several types, or none requires a
  ///         gradient
  DistributedDataParallel(ProcessGroup& group, Module module, const DistributedOptions& options = {})
      : module_(std::move(module)), replica_(std::make_unique<detail::ReplicatedModule>(group, *module_, options)) {}

  /// Calls the module's forward. Not collective.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    return module_->forward(std::forward<Inputs>(inputs)...);
  }

  /// Overwrites the gradients with their means over all ranks, which are the sums divided by the number of ranks. With
  /// `allow_unused` a rank without a gradient for a parameter contributes zeros and receives the mean. Under no_sync()
  /// nothing is reduced. Collective.
  /// @throws Error{invalid_argument} on every rank that names the parameters for which no rank has a gradient, or some
  ///         ranks have none, unless `allow_unused` is set; Error{invalid_argument} that names a parameter that did not
  ///         require a gradient before, or whose size or type has changed; also as DataParallel::finish
  DataParallel::Step finish() { return replica_->finish(std::nullopt, {}); }
  /// Overwrites the gradients with their sums over all ranks, divided by the sum of the weights. Use it if ranks have
  /// different numbers of samples, or none. If the loss is a sum over samples, or a mean times their number, and the
  /// weight is the number of samples, the result is the mean over all samples. Under no_sync() weights and sums
  /// accumulate.
  /// @param weight  this rank's weight, not negative
  /// @param sums    numbers to sum over ranks, such as the loss; overwritten. Equally many on all ranks
  DataParallel::Step finish(double weight, std::span<double> sums = {}) { return replica_->finish(weight, sums); }

  /// While the returned guard exists, gradients accumulate on each rank; the first finish() after it reduces them.
  /// `auto guard = model.no_sync(step % 4 != 3);` reduces every fourth step. Calling finish() under the guard is only
  /// needed to accumulate weights and sums.
  /// @param on  false: the guard has no effect; the same on all ranks
  auto no_sync(bool on = true) { return replica_->no_sync(on); }

  /// Lets a checkpoint save and restore the module's parameters and buffers, by the names of libtorch, as tensors of
  /// `model.safetensors`, which Python loads with safetensors.torch.load_file. Call it once, after the constructor;
  /// this object must outlive the checkpoint's use.
  /// @throws Error{unsupported} that names a tensor that is not contiguous, or whose type checkpoints do not have; as
  ///         Checkpoint::add
  void add_to(Checkpoint& checkpoint) { replica_->add_to(checkpoint); }
  /// Lets a checkpoint save and restore the state of an optimizer of this module's parameters, and its learning rates,
  /// as tensors and numbers of the program's own: `optimizer.NAME.exp_avg` and so on. Call it once, and load nothing
  /// else into the optimizer afterwards, which must outlive the checkpoint's use. State that the first step would make
  /// is made here.
  /// @param optimizer  an Adam, AdamW, SGD, RMSprop or Adagrad of torch::optim
  /// @throws Error{unsupported} for SGD with dampening that has taken no step; as add_to
  template <detail::KnownOptimizer Optimizer>
  void add_to(Checkpoint& checkpoint, Optimizer& optimizer) {
    replica_->add_to(checkpoint, optimizer);
  }

  /// The module that was passed to the constructor.
  [[nodiscard]] Module& module() { return module_; }
  /// The object that reduces the gradients, for its `exposed_seconds()` and `number_steps_from()`.
  [[nodiscard]] DataParallel& parallel() { return replica_->parallel(); }

 private:
  Module module_;
  std::unique_ptr<detail::ReplicatedModule> replica_;
};

}  // namespace lockstep::torch
