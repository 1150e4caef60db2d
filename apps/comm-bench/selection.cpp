// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/selection.hpp"

#include <algorithm>

#include "apps/comm-bench/contenders.hpp"
#include "apps/comm-bench/exercise.hpp"
#include "apps/common/run_app.hpp"
#include "apps/common/terminal.hpp"
#include "collectives/choice/selection.hpp"

namespace lockstep::comm_bench {

std::vector<Count> counts_of(const Options& options, int ranks) {
  if (options.op == CollectiveKind::barrier) return {{0}};
  return part_counts(options.sizes, size_of(options.dtype), parts_of(options.op, ranks));
}

std::vector<std::string> names_on(const World& world, const Options& options) {
  if (options.algorithms_given) return options.algorithms;
  const CollectiveKind kind = options.op;
  const auto able = candidates(kind, collectives::summarize(world.shape()));
  std::vector<std::string> names;
  for (const std::string& name : options.algorithms) {
    const auto is_own = [&](collectives::Algorithm algorithm) { return algorithm_name(kind, algorithm) == name; };
    const bool is_useful = name == automatic || is_of_the_mpi_library(name) ||
                           !uses_shared_memory(collectives::parse_algorithm(kind, name)) ||
                           std::any_of(able.begin(), able.end(), is_own);
    if (is_useful) names.push_back(name);
  }
  return names;
}

backends::Method method_of(std::string_view contender, const Options& options) {
  if (is_of_the_mpi_library(contender)) return backends::MpiLibrary{};
  collectives::Choice choice{.segment = options.segment, .blocks_in_flight = options.in_flight, .radix = options.radix};
  if (contender == automatic) return collectives::Selection{.untuned = choice};
  choice.algorithm = collectives::parse_algorithm(options.op, contender);
  return collectives::forced(choice);
}

std::string explanation(const World& world, const Options& options) {
  std::vector<std::string> names = names_on(world, options);
  names.erase(std::remove_if(names.begin(), names.end(), is_of_the_mpi_library), names.end());
  if (names.empty()) throw UsageError("--explain: how the MPI library chooses is not known here");
  if (std::find(names.begin(), names.end(), automatic) != names.end()) names = {std::string(automatic)};
  std::vector<Bytes> sizes;
  for (const Count count : counts_of(options, world.size())) sizes.push_back(bytes_of(count, options.dtype));
  std::string text;
  for (const std::string& name : names) {
    ProcessGroup group = make_group(world, method_of(name, options), options);
    text += group.explain(options.op, sizes, table_columns());
    group.close();
  }
  return text;
}

}  // namespace lockstep::comm_bench
