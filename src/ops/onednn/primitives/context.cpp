// SPDX-License-Identifier: Apache-2.0
#include "ops/onednn/primitives/context.hpp"

#include <cstddef>
#include <cstdint>

// These are the functions of libgomp that gcc calls for `#pragma omp parallel`. Other compilers would bring their own
// runtime, with a team of its own.
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
