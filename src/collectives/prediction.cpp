#include "lockstep/collectives/prediction.hpp"

#include <algorithm>

#include "lockstep/collectives/blocks.hpp"
#include "lockstep/collectives/cost.hpp"

namespace lockstep::collectives {
namespace {

Rates rates_of(const ShapeSummary& shape, const CostModel& model) {
  const LinkCost& link = shape.nodes > 1 ? model.remote : model.local;
  return {link.alpha_seconds, link.beta_seconds_per_byte, model.gamma_seconds_per_byte};
}

double block_seconds(Operation operation, Algorithm algorithm, int ranks, Bytes block, const Rates& rates) {
  switch (operation) {
    case Operation::all_reduce: return all_reduce_seconds(algorithm, ranks, block, rates);
    case Operation::broadcast: return binomial_broadcast_seconds(ranks, block, rates);
    case Operation::all_gather: return ring_all_gather_seconds(ranks, block, rates);
    case Operation::reduce_scatter: return ring_reduce_scatter_seconds(ranks, block, rates);
    case Operation::barrier: return dissemination_barrier_seconds(ranks, rates);
  }
  return 0;
}

/// For how long a block keeps the port busy that sends most of it. In most algorithms it is busy all the time; the
/// trees' levels take turns, and no rank sends more than two buffers.
double busy_seconds(Operation operation, Algorithm algorithm, int ranks, Bytes block, const Rates& rates) {
  const Rates only_bytes{.beta_seconds_per_byte = rates.beta_seconds_per_byte};
  const double chain = block_seconds(operation, algorithm, ranks, block, only_bytes);
  if (operation != Operation::all_reduce || algorithm != Algorithm::double_tree) return chain;
  return std::min(chain, 2 * static_cast<double>(block.value) * rates.beta_seconds_per_byte);
}

}  // namespace

double predicted_seconds(const Choice& choice, Operation operation, Bytes bytes, const ShapeSummary& shape,
                         const CostModel& model) {
  const Rates rates = rates_of(shape, model);
  const Count longest = block_count(operation, choice.algorithm, shape.ranks, {choice.segment.value});
  const Bytes block{std::min(bytes.value, longest.value)};
  const double alone = block_seconds(operation, choice.algorithm, shape.ranks, block, rates);
  if (bytes <= block || operation == Operation::barrier) return alone;
  const double busy = busy_seconds(operation, choice.algorithm, shape.ranks, block, rates);
  const double followers = static_cast<double>(bytes.value) / static_cast<double>(block.value) - 1;
  return alone + followers * std::max(alone / choice.blocks_in_flight, busy);
}

}  // namespace lockstep::collectives
