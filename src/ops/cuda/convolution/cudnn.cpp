// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN's graph API: plans, the threads that make them, and the interface to the operators.
#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <semaphore>
#include <thread>

#include "ops/cuda/convolution/convolutions.hpp"
#include "ops/cuda/convolution/cudnn_descriptor.hpp"
#include "ops/cuda/convolution/cudnn_engines.hpp"

namespace lockstep::ops::cuda {
namespace {

std::string version_text() { return "cuDNN " + cudnn().version; }

bool has_epilogue(const ConvolutionRequest& request) { return request.bias || request.relu || request.statistics; }

class CudnnPlan final : public ConvolutionPlan {
 public:
  CudnnPlan(Descriptor plan, const ConvolutionRequest& request, bool is_fused, std::shared_ptr<const PlanTarget> target)
      : plan_(std::move(plan)),
        has_bias_(is_fused && request.bias),
        has_statistics_(is_fused && request.statistics),
        applies_epilogue_(is_fused || !has_epilogue(request)),
        workspace_{plan_.value<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)},
        target_(std::move(target)) {}

  [[nodiscard]] Bytes workspace() const override { return workspace_; }
  [[nodiscard]] bool applies_epilogue() const override { return applies_epilogue_; }

  void run(const ConvolutionTensors& tensors, Queue queue) const override {
    if (target_->handle == nullptr) {
      throw Error(ErrorCode::unsupported,
                  "a plan for the described properties of a GPU cannot run: use make_convolutions");
    }
    check_cudnn(cudnn().SetStream(target_->handle, static_cast<cudaStream_t>(queue.native())), "use a stream");
    check_cudnn(cudnn().BackendExecute(target_->handle, plan_.native(), addresses_of(tensors).native()),
                "submit a convolution");
  }

 private:
  /// Returns the addresses as a descriptor. The layers of a step use the same ones again and again, and must not
  /// allocate.
  [[nodiscard]] const Descriptor& addresses_of(const ConvolutionTensors& tensors) const {
    const auto known = addresses_.find(tensors);
    if (known != addresses_.end()) return known->second;
    std::vector<std::int64_t> ids{x_tensor, w_tensor, y_tensor};
    std::vector<void*> pointers{tensors.x, tensors.w, tensors.y};
    const auto add = [&](TensorId id, const void* pointer) {
      ids.push_back(id);
      pointers.push_back(const_cast<void*>(pointer));
    };
    if (has_bias_) add(bias_tensor, tensors.bias);
    if (has_statistics_) {
      add(shift_tensor, tensors.shift);
      add(sum_tensor, tensors.sums.deviations);
      add(sum_of_squares_tensor, tensors.sums.squares);
    }
    Descriptor addresses(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    addresses.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(ids))
        .set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
        .set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span(&tensors.workspace, 1));
    return addresses_.emplace(tensors, std::move(addresses).finalize("take the addresses of tensors")).first->second;
  }

  Descriptor plan_;
  bool has_bias_;
  bool has_statistics_;
  bool applies_epilogue_;
  Bytes workspace_;
  std::shared_ptr<const PlanTarget> target_;
  mutable std::map<ConvolutionTensors, Descriptor> addresses_;
};

using MakeTarget = std::function<std::shared_ptr<const PlanTarget>()>;

/// Makes plans for one target. They are run by another one.
class PlanMaker {
 public:
  explicit PlanMaker(const PlanTarget& target) : target_(target) {}

  [[nodiscard]] std::vector<std::string> candidates(const ConvolutionRequest& request) const {
    Shortlist list;
    if (!request.statistics) {
      shortlist(request, {true, false}, list);
      return list.words;
    }
    // All engines with statistics compile their code, so that the first words are those without.
    ConvolutionRequest product = request;
    product.statistics = false;
    std::vector<std::string> words = candidates(product);
    shortlist(request, {true}, list);
    words.insert(words.end(), list.words.begin(), list.words.end());
    return words;
  }

  /// @throws Error{unsupported} naming the word and the request
  [[nodiscard]] std::unique_ptr<const ConvolutionPlan> plan(const ConvolutionRequest& request, const std::string& word,
                                                            std::shared_ptr<const PlanTarget> runs) const {
    const auto refuse = [&](const std::string& why) -> Error {
      return {ErrorCode::unsupported, version_text() + " cannot use '" + word + "' for " + text(request) +
                                          " on this GPU: " + why + ". Let the kernels be chosen again"};
    };
    const auto choice = parse_word(word);
    if (!choice || (choice->is_fused && !has_epilogue(request))) throw refuse("it does not name an engine");
    const auto existing = [&](std::optional<Descriptor> made) {
      if (!made) throw refuse(text_of(CUDNN_STATUS_NOT_SUPPORTED));
      return std::move(*made);
    };
    const Descriptor graph = existing(graph_of(request, choice->is_fused, target_));
    const Descriptor engine = existing(engine_of(*choice, graph, target_));
    const std::string_view fault = fault_of(engine, request, choice->is_fused);
    if (!fault.empty()) throw refuse(std::string(fault));
    Descriptor plan = existing(plan_of(existing(configuration_of(*choice, engine)), target_));
    return std::make_unique<CudnnPlan>(std::move(plan), request, choice->is_fused, std::move(runs));
  }

  /// Makes the first plan that cuDNN does not refuse when it compiles its code.
  [[nodiscard]] Planned rule(const ConvolutionRequest& request, const std::shared_ptr<const PlanTarget>& runs) const {
    for (const std::string& word : candidates(request)) {
      try {
        return {word, request, plan(request, word, runs)};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
      }
    }
    throw Error(ErrorCode::unsupported, version_text() + " cannot compute " + text(request));
  }

 private:
  /// The words of a few engines, each with a few configurations, so that slow ones do not crowd out others.
  struct Shortlist {
    std::vector<std::string> words;
    std::map<std::pair<bool, std::int64_t>, int> of_engine;
    int compiled = 0;
  };

  /// Adds words of the graphs with and without an epilogue, as the heuristics name them.
  void shortlist(const ConvolutionRequest& request, std::initializer_list<bool> fused, Shortlist& list) const {
    std::vector<std::pair<bool, Descriptor>> graphs;
    for (const bool is_fused : fused) {
      if (is_fused && !has_epilogue(request)) continue;
      if (auto graph = graph_of(request, is_fused, target_)) graphs.emplace_back(is_fused, std::move(*graph));
    }
    // Mode B knows engines that mode A leaves out, also where A names many.
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
      constexpr std::size_t enough = 4;
      if (mode == CUDNN_HEUR_MODE_FALLBACK && list.words.size() >= enough) break;
      for (const auto& [is_fused, graph] : graphs) {
        for (const EngineChoice& choice : choices_of(graph, is_fused, mode, target_))
          consider(choice, graph, request, list);
      }
    }
  }

  void consider(const EngineChoice& choice, const Descriptor& graph, const ConvolutionRequest& request,
                Shortlist& list) const {
    constexpr std::size_t most = 12;
    constexpr int most_of_an_engine = 3;
    // Each takes up to some seconds to compile. Those that only stand beside others are few.
    const int most_compiled = request.statistics || request.result != request.dtype ? 1 : 2;
    const std::string word = word_of(choice);
    int& of_engine = list.of_engine[{choice.is_fused, choice.engine}];
    if (list.words.size() == most || of_engine == most_of_an_engine) return;
    if (std::find(list.words.begin(), list.words.end(), word) != list.words.end()) return;
    const auto engine = engine_of(choice, graph, target_);
    if (!engine || !fault_of(*engine, request, choice.is_fused).empty()) return;
    const bool is_compiled = is_compiled_at_run_time(*engine);
    if (is_compiled && list.compiled == most_compiled) return;
    const auto configuration = configuration_of(choice, *engine);
    // Whether a plan exists is not tried where its code would have to be compiled for that.
    if (!configuration || (!is_compiled && !plan_of(*configuration, target_))) return;
    list.compiled += is_compiled ? 1 : 0;
    ++of_engine;
    list.words.push_back(word);
  }

  const PlanTarget& target_;
};

constexpr std::ptrdiff_t most_makers = 16;

/// Makes plans on as many threads at a time as there are processors, at most `most_makers`. Threads must not share a
/// handle, so each takes one for itself. Handles have memory of the GPU, so none is kept while nobody makes plans.
/// @source cuDNN developer guide, Thread Safety
class PlanMakers {
 public:
  /// @param select_gpu  is called in each thread; may be empty
  PlanMakers(MakeTarget make_target, std::function<void()> select_gpu)
      : make_target_(std::move(make_target)), select_gpu_(std::move(select_gpu)), runs_(make_target_()) {}

  /// The target that runs the plans.
  [[nodiscard]] const PlanTarget& target() const { return *runs_; }

  [[nodiscard]] Planned make(const ConvolutionRequest& request, const std::string& word, IfMissing if_missing,
                             const std::stop_token& is_unwanted) {
    if (select_gpu_) select_gpu_();
    enter();
    const std::shared_ptr<void> presence(nullptr, [this](void*) { leave(); });
    seats_.acquire();
    const std::shared_ptr<void> seat(nullptr, [this](void*) { seats_.release(); });
    if (is_unwanted.stop_requested()) return {};
    const std::shared_ptr<const PlanTarget> target = take_target();
    const std::shared_ptr<void> back(nullptr, [&](void*) { give_back(target); });
    const PlanMaker maker(*target);
    if (word.empty()) return maker.rule(request, runs_);
    try {
      return {word, request, maker.plan(request, word, runs_)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported || if_missing == IfMissing::fail) throw;
    }
    ConvolutionRequest plain = request;
    plain.result = request.dtype;
    return maker.rule(plain, runs_);
  }

 private:
  void enter() {
    const std::scoped_lock lock(mutex_);
    ++present_;
  }
  void leave() {
    std::vector<std::shared_ptr<const PlanTarget>> unused;  // is destroyed after the lock
    const std::scoped_lock lock(mutex_);
    if (--present_ == 0) unused.swap(free_);
  }
  std::shared_ptr<const PlanTarget> take_target() {
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        auto target = std::move(free_.back());
        free_.pop_back();
        return target;
      }
    }
    return make_target_();
  }
  void give_back(std::shared_ptr<const PlanTarget> target) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(target));
  }

  MakeTarget make_target_;
  std::function<void()> select_gpu_;
  std::shared_ptr<const PlanTarget> runs_;
  std::counting_semaphore<> seats_{std::clamp<std::ptrdiff_t>(std::thread::hardware_concurrency(), 1, most_makers)};
  std::mutex mutex_;
  int present_ = 0;  // threads that make a plan or wait for their seat
  std::vector<std::shared_ptr<const PlanTarget>> free_;
};

class CudnnConvolutions final : public Convolutions {
 public:
  CudnnConvolutions(MakeTarget make_target, std::function<void()> select_gpu)
      : makers_(std::make_shared<PlanMakers>(std::move(make_target), std::move(select_gpu))) {}

  [[nodiscard]] std::string version() const override { return version_text(); }

  [[nodiscard]] std::vector<std::string> candidates(const ConvolutionRequest& request) override {
    return PlanMaker(makers_->target()).candidates(request);
  }

  [[nodiscard]] std::shared_ptr<const PendingPlan> plan(const ConvolutionRequest& request, const std::string& word,
                                                        IfMissing if_missing) override {
    std::weak_ptr<const PendingPlan>& known =
        plans_[text(request) + (if_missing == IfMissing::fail ? "=" : "~") + word];
    std::shared_ptr<const PendingPlan> plan = known.lock();
    if (!plan) {
      plan = std::make_shared<const PendingPlan>(
          std::launch::async, [makers = makers_, request, word, if_missing](const std::stop_token& is_unwanted) {
            return makers->make(request, word, if_missing, is_unwanted);
          });
      known = plan;
    }
    return plan;
  }

 private:
  std::shared_ptr<PlanMakers> makers_;
  std::map<std::string, std::weak_ptr<const PendingPlan>> plans_;
};

}  // namespace

std::unique_ptr<Convolutions> make_convolutions(const std::function<void()>& select_gpu) {
  return std::make_unique<CudnnConvolutions>(PlanTarget::of_selected_gpu, select_gpu);
}

std::unique_ptr<Convolutions> make_convolutions_for(const std::string& device_properties) {
  return std::make_unique<CudnnConvolutions>([=] { return PlanTarget::described(device_properties); }, nullptr);
}

}  // namespace lockstep::ops::cuda
