// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/observer.hpp"
#include "nn/lanes.hpp"
#include "nn/step.hpp"

namespace lockstep::nn {

/// Runs each item at once, on this processor and together with the other ranks.
class Runner final : public ItemQueue {
 public:
  /// @param graph     the graph whose loss terms `numbers` has
  /// @param lanes     if there are several, items with a lane wait for the next `Join` and run there
  /// @param observer  may be null
  Runner(const Graph& graph, StepNumbers& numbers, Lanes& lanes, Peers& peers, Observer* observer)
      : graph_(graph), numbers_(numbers), lanes_(lanes), ops_(lanes.ops(0)), peers_(peers), observer_(observer) {}

  void submit(const Item& item) override;
  /// Runs an item on this thread, whatever its lane. @pre lanes rest
  void run_now(const Item& item);

 private:
  void add_leaves();
  [[nodiscard]] std::size_t shards() const { return numbers_.shards.size() / numbers_.rank.size(); }
  template <typename Body>
  void timed(const std::string& label, int lane, const Body& body);
  void run(const Run& item);
  static void run(const Zero& item);
  void run(const Join& item);
  void run(const Ready& item) { peers_.ready(item.parameter); }
  void run(const Poll& /*item*/) { peers_.between_operators(); }
  void run(const SumWeights& item);
  void run(const SetFactors& item);
  void run(const Gather& item) { peers_.gather(item.own, item.all); }
  void run(const Finish& item);
  void run(const Gate& item);
  void run(const MeasureUpdate& item) { ops_.measure_update(item.step); }
  void run(const Sum& item) { peers_.sum(item.values); }
  void run(const Update& item);
  void run(const Average& item) { ops_.average(item.step); }
  void run(const GatherParameters& /*item*/) { peers_.gather_parameters(); }

  const Graph& graph_;
  StepNumbers& numbers_;
  Lanes& lanes_;
  ops::Ops& ops_;
  Peers& peers_;
  Observer* observer_;
};

/// Returns Σ coefficient · loss ÷ normalizer, of sums over all ranks and batches.
double loss_of(const Graph& graph, std::span<const ops::LossSums> loss_sums, double samples);

}  // namespace lockstep::nn
