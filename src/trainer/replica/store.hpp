// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/replica/running_statistics.hpp"

namespace lockstep::trainer {

/// The tensors of a run that must survive a restart: the values of the parameters, which the `DataParallel` holds, the
/// state of the optimizer, the EMA weights, the sum of gradients over several steps, and the running statistics. With a
/// sharded optimizer a rank has all values, and the state and EMA weights of the parts that it updates.
class Store {
 public:
  /// Allocates the memory; all but the values is zero. @param data_parallel  outlives this, as do `group` and `model`
  Store(ProcessGroup& group, const nn::Model& model, DataParallel& data_parallel, const TrainerOptions& options);

  /// The buffers for Model::bind.
  [[nodiscard]] nn::Model::Memory memory() const;
  /// Overwrites the EMA of the weights and of the running statistics, if there is one, with the values.
  void start_averages();

  [[nodiscard]] const nn::Model& model() const { return *model_; }
  [[nodiscard]] Buffer values() const { return data_parallel_->values(); }
  /// The optimizer's state buffers, in the order of `state_names()`, each with this rank's parts, one after the other.
  [[nodiscard]] std::vector<Buffer> optimizer_state() const;
  [[nodiscard]] ops::UpdateRule rule() const { return rule_; }
  [[nodiscard]] std::vector<std::string_view> state_names() const { return nn::Optimizer::state_names(rule_); }
  /// The EMA weights of this rank's parts; empty without EMA.
  [[nodiscard]] Buffer averages() const { return averages_.as(model_->dtype()); }
  [[nodiscard]] bool has_averages() const { return has_averages_; }
  /// The sum of gradients over several steps of this rank's parts; empty where each step makes an update.
  [[nodiscard]] Buffer gradient_sums() const { return gradient_sums_.as(model_->dtype()); }
  [[nodiscard]] bool has_gradient_sums() const { return has_gradient_sums_; }
  /// The parts of the layout that this rank updates.
  [[nodiscard]] const std::vector<LayoutPart>& owned() const { return data_parallel_->owned(); }
  [[nodiscard]] bool is_sharded() const { return is_sharded_; }
  /// Memory of the optimizer's state, the EMA weights and the sum of gradients on this rank. Rank 0 has at least as
  /// much as any other.
  [[nodiscard]] Bytes optimizer_bytes() const;

  /// The numbers of the graph's constants, one after the other, in memory of the host.
  [[nodiscard]] Buffer constants() const { return constants_.as(model_->dtype()); }

  [[nodiscard]] RunningStatistics& statistics() { return statistics_; }
  [[nodiscard]] const RunningStatistics& statistics() const { return statistics_; }

  /// Overwrites a flat buffer of the layout with the parts of all ranks. Collective.
  void assemble(const Buffer& own, const Buffer& whole);
  /// Gathers the EMA weights for evaluations, if each rank has a part of them. They overwrite the gradients, which are
  /// not needed any more before the next step. Collective.
  void gather_averages();

 private:
  template <typename Action>
  void for_each_owned(const Buffer& own, const Buffer& whole, const Action& action) const;

  const nn::Model* model_;
  DataParallel* data_parallel_;
  ops::UpdateRule rule_;
  bool is_sharded_;
  bool has_averages_;
  bool has_gradient_sums_;
  std::vector<Allocation> optimizer_state_;
  Allocation averages_;
  Allocation gradient_sums_;
  Allocation constants_;
  RunningStatistics statistics_;
};

}  // namespace lockstep::trainer
