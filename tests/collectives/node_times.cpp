// SPDX-License-Identifier: Apache-2.0
// collectives_node_times prints a table of how long all-reduces on a node of many cores take, by the simulation of
// cache lines (proof/cache_lines.hpp): each rank is bound to a core, and deals with all others, or with those of its
// cache and one of each other cache. Times do not include the call, which takes about 0.25 µs.
#include <cstdio>

#include "collectives/node_operation.hpp"

int main() {
  using namespace lockstep::collectives;
  std::printf("| ranks | size | `allocate()` | by cache | ordinary memory | by cache |\n|---|---|---|---|---|---|\n");
  const NodeModel model;
  for (const int ranks : {16, 32, 64, 128})
    for (const int bytes : {8, 256, 4096, 65536, 1 << 20, 64 << 20}) {
      std::printf("| %d | %d B ", ranks, bytes);
      for (const Reach reach : {Reach::direct, Reach::staged})
        for (const int ranks_per_cache : {0, 8})
          std::printf("| %.2f ", 1e6 * seconds_on_node(ranks, bytes, reach, ranks_per_cache, model));
      std::printf("|\n");
    }
}
