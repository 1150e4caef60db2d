// SPDX-License-Identifier: Apache-2.0
// Compression on the wire over MPI, and where a membership puts it.
#include <gtest/gtest.h>

#include <vector>

#include "backends/contract.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/backends/membership.hpp"
#include "lockstep/platform/world.hpp"

namespace lockstep::backends {
namespace {

class CompressedOver : public testing::TestWithParam<const char*> {};

TEST_P(CompressedOver, KeepsTheContract) {
  World world;
  Progress progress({.spins_before_yield = 0});
  for (const WireFormat format : {WireFormat::bfloat16, WireFormat::float16}) {
    const auto c = make_compressed(make_communicator(world.group(), progress, {.method = parse_method(GetParam())}),
                                   format, progress);
    contract::check_all(*c);
  }
  world.close();
}

INSTANTIATE_TEST_SUITE_P(EitherTransport, CompressedOver, testing::Values("ring", "mpi"));

TEST(CompressedMembership, RoundsGradientsAndNothingElse) {
  World world;
  Membership members(world.group(), {.wait = {.spins_before_yield = 0}, .compress = WireFormat::bfloat16});
  const float precise = 1.0F + 0x1p-20F;
  for (Communicator* c : {&members.gradients(), &members.statistics()}) {
    std::vector<float> values = {precise};
    const Buffer buffer{values.data(), {1}, DType::float32};
    c->all_reduce(buffer, buffer, ReduceOp::max).wait();
    EXPECT_EQ(values[0], c == &members.gradients() ? 1.0F : precise);
  }
  members.close();
  world.close();
}

TEST(CompressedMembership, IsRefusedTogetherWithTreeOrder) {
  World world;
  try {
    const Membership members(world.group(), {.method = parse_method("tree-order"), .compress = WireFormat::float16});
    FAIL() << "was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(error.message().find("compression (fp16)"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("depends on the number of ranks"), std::string::npos) << error.what();
  }
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
