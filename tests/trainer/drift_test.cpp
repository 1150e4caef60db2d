// SPDX-License-Identifier: Apache-2.0
// Tests a rank whose weights change during training, as those of a faulty update would.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/replica/replica.hpp"
#include "trainer/small_data.hpp"

namespace lockstep::trainer {
namespace {

/// Runs a training in which a weight of the last rank changes after the fourth step.
std::optional<Error> error_of_run(const World& world, TrainerOptions options) {
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  std::optional<Error> error;
  {
    const auto ops = ops::make_reference_ops();
    const data::DatasetPair data = testing_support::small_digits(60, 10, 8);
    options.batch = {6};
    options.compare_every = 3;
    options.workers = 0;
    Trainer trainer(members, *ops, nn::make_model("lenet", nn::DataSpec::of_images(1, 8, 8, 10)), data, options);
    try {
      EXPECT_EQ(trainer.train_steps(options.zero ? 5 : 4), options.zero ? 5 : 4);
      const DataParallel& parallel = trainer.replica().data_parallel();
      if (world.rank().value == world.size() - 1) static_cast<float*>(parallel.value(1).data)[0] += 1;
      (void)trainer.train_steps(4);
    } catch (const Error& thrown) {
      error = thrown;
    }
  }
  members.close();
  return error;
}

/// With zero, a rank's weights are overwritten by the owners' after each step, so the weight changes just before the
/// comparison.
TEST(Drift, IsFoundByAllRanksWithTheTrainingStep) {
  World world;
  for (const TrainerOptions& options :
       {TrainerOptions{}, TrainerOptions{.step = {.shards = 6}}, TrainerOptions{.zero = true},
        TrainerOptions{.step = {.shards = 6}, .zero = true}}) {
    SCOPED_TRACE(std::to_string(options.step.shards) + " shards" + (options.zero ? ", zero" : ""));
    const std::optional<Error> error = error_of_run(world, options);
    if (!error) {
      ADD_FAILURE() << "trained on";
      continue;
    }
    EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
    EXPECT_TRUE(error->is_on_every_rank());
    EXPECT_EQ(error->context().step, options.zero ? 6 : 5) << error->what();
    EXPECT_EQ(error->context().peers, std::vector{world.size() - 1}) << error->what();
    EXPECT_NE(error->message().find("'conv1.bias' is the first tensor that differs"), std::string::npos)
        << error->what();
  }
  world.close();
}

}  // namespace
}  // namespace lockstep::trainer
