// SPDX-License-Identifier: Apache-2.0
#include <thread>
#include <vector>

#include "ddp/ranks.hpp"

namespace lockstep::ddp {

bool ranks_are_threads() { return true; }

void on_every_rank(const std::function<void(ProcessGroup&)>& body, const GroupOptions& options) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    GroupOptions patient = options;
    patient.wait.spins_before_yield = 0;
    std::vector<ProcessGroup> groups = ProcessGroup::of_threads(ranks, patient);
    std::vector<std::thread> threads;
    for (ProcessGroup& group : groups) {
      threads.emplace_back([&] {
        body(group);
        group.close();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace lockstep::ddp
