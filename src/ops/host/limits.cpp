// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstring>

#include "kernels/peak.hpp"
#include "ops/host/host_ops.hpp"

namespace lockstep::ops {
namespace {

constexpr int trials = 5;  // the fastest trial counts, because nothing is faster than the machine

template <typename Body>
double least_seconds(const Body& body) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  for (int trial = 0; trial < trials; ++trial) {
    const Clock::time_point begin = Clock::now();
    body();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return least;
}

double copied_bytes_per_second(const OnTeam& on_team) {
  constexpr std::int64_t bytes = std::int64_t{64} << 20;
  const Allocation from = allocate_host({bytes});
  const Allocation to = allocate_host({bytes});
  std::memset(from.data(), 1, bytes);
  const double seconds = least_seconds([&] {
    on_team([&](int member, int members) {
      const std::int64_t begin = bytes * member / members;
      const std::int64_t end = bytes * (member + 1) / members;
      std::memcpy(static_cast<std::byte*>(to.data()) + begin, static_cast<const std::byte*>(from.data()) + begin,
                  static_cast<std::size_t>(end - begin));
    });
  });
  return 2 * static_cast<double>(bytes) / seconds;
}

double flops_per_second(DType dtype, const OnTeam& on_team) {
  constexpr std::int64_t rounds = 200'000;
  std::atomic<double> sum = 0;  // written so that the compiler keeps the computation
  std::atomic<int> team = 1;
  const double seconds = least_seconds([&] {
    on_team([&](int /*member*/, int members) {
      team = members;
      sum = dtype == DType::float32 ? static_cast<double>(kernels::multiply_add_float32(rounds))
                                    : kernels::multiply_add_float64(rounds);
    });
  });
  return static_cast<double>(team.load()) * static_cast<double>(rounds * kernels::flops_per_round) / seconds;
}

}  // namespace

MachineLimits HostOps::measure_limits(DType dtype) {
  require_real(dtype, "limits of arithmetic in ", "");
  return {.bytes_per_second = copied_bytes_per_second(on_team_), .flops_per_second = flops_per_second(dtype, on_team_)};
}

}  // namespace lockstep::ops
