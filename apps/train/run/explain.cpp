// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/explain.hpp"

#include <vector>

#include "apps/cli/terminal.hpp"
#include "apps/train/model/computation.hpp"
#include "base/wrapped.hpp"
#include "lockstep/nn/explain.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::train {
namespace {

/// With shards there is no choice of algorithm.
std::string order_of_shards(const Options& options, const ProcessGroup& group, const std::vector<Bytes>& sizes) {
  std::string text = "# all_reduce on " + std::to_string(group.size()) + " ranks: in tree order over " +
                     std::to_string(options.trainer.step.shards) + " shards, as --shards asks, at any size\n";
  std::string line = "# size (B)";
  for (const Bytes size : sizes) line += ' ' + std::to_string(size.value);
  return text + wrapped(line, cli::table_columns()) + '\n';
}

}  // namespace

std::string explanation(const Options& options, const ProcessGroup& group, const trainer::Trainer& trainer) {
  std::vector<Bytes> sizes = trainer.replica().data_parallel().bucket_sizes();
  if (options.trainer.step.shards > 0) return order_of_shards(options, group, sizes);
  CollectiveKind kind = CollectiveKind::all_reduce;
  if (options.trainer.zero) {
    kind = CollectiveKind::reduce_scatter_v;
    for (Bytes& size : sizes) size.value /= group.size();  // the size of a rank's part
  }
  return group.explain(kind, sizes, cli::table_columns()) + '\n';
}

void show_step(const RunContext& run, ops::Ops& ops) {
  const World& world = run.cluster.world;
  const trainer::TrainerOptions& options = run.options.trainer;
  const std::int64_t samples = largest_leaf(run.options, run.data.batch, world.size());
  const Phase phase(world.group(), "measuring the operators of a step");
  run.console.phase("measuring a step");
  barrier(world.group());
  const nn::StepReport report = nn::explain_step(run.model.graph, ops, options.precision, samples, options.passes);
  const std::string what = options.step.accumulate > 1 ? "micro-batch" : options.step.shards > 0 ? "shard" : "step";
  run.console.print("A " + what + " of rank 0, with " + std::to_string(samples) + " samples:\n" +
                    to_text(report, cli::table_columns()) + '\n');
}

}  // namespace lockstep::train
