// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/team.hpp"

// Of libgomp, by what its own compiler makes of `#pragma omp parallel`: other compilers would bring a runtime, and a
// team, of their own.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned members, unsigned flags);
extern "C" int omp_get_thread_num();
extern "C" int omp_get_num_threads();

namespace lockstep::ops::onednn {

void on_team(const std::function<void(int, int)>& body) {
  using Body = std::function<void(int, int)>;
  constexpr unsigned as_many_as_set = 0;
  Body mine = body;
  GOMP_parallel([](void* data) { (*static_cast<const Body*>(data))(omp_get_thread_num(), omp_get_num_threads()); },
                &mine, as_many_as_set, 0);
}

}  // namespace lockstep::ops::onednn
