// SPDX-License-Identifier: Apache-2.0
// Tests compression on the wire over MPI.
#include <gtest/gtest.h>

#include <vector>

#include "backends/contract/contract.hpp"
#include "backends/make_agreed.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep::backends {
namespace {

class CompressedOver : public testing::TestWithParam<const char*> {};

TEST_P(CompressedOver, KeepsTheContract) {
  World world;
  Progress progress({.spins_before_yield = 0});
  for (const WireFormat format : {WireFormat::bfloat16, WireFormat::float16}) {
    const auto c =
        make_compressed(make_agreed(world.group(), progress, {.method = parse_method(GetParam())}), format, progress);
    contract::check_all(*c);
  }
  world.close();
}

INSTANTIATE_TEST_SUITE_P(EitherTransport, CompressedOver, testing::Values("ring", "mpi"));

}  // namespace
}  // namespace lockstep::backends
