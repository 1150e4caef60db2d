// SPDX-License-Identifier: Apache-2.0
#include "ddp/ranks.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::ddp {

bool ranks_are_threads() { return false; }

void on_every_rank(const std::function<void(ProcessGroup&)>& body, const GroupOptions& options) {
  World world;
  GroupOptions patient = options;
  patient.wait.spins_before_yield = 0;
  ProcessGroup group(world, patient);
  body(group);
  group.close();
  world.close();
}

}  // namespace lockstep::ddp
