// SPDX-License-Identifier: Apache-2.0
// Compares every learning-rate schedule with the rates of PyTorch's schedulers, which
// mpi-scripts/parity/learning-rates-pytorch.py writes to pytorch_learning_rates.json.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/nn/learning_rate.hpp"

namespace lockstep::nn {
namespace {

const std::map<std::string, Decay> decays = {{"constant", Decay::constant},
                                             {"step", Decay::step},
                                             {"cosine", Decay::cosine},
                                             {"polynomial", Decay::polynomial},
                                             {"one-cycle", Decay::one_cycle}};

LearningRateSchedule described_by(const nlohmann::json& recorded) {
  const LearningRateSchedule usual;
  return {.peak = recorded.at("peak"),
          .decay = decays.at(recorded.at("schedule")),
          .warmup_steps = recorded.at("warmup_steps"),
          .milestones = recorded.value("milestones", usual.milestones),
          .gamma = recorded.value("gamma", usual.gamma),
          .power = recorded.value("power", usual.power),
          .final_fraction = recorded.value("final_fraction", usual.final_fraction)};
}

TEST(PyTorchSchedules, GiveTheSameRates) {
  const nlohmann::json all = nlohmann::json::parse(std::ifstream(LOCKSTEP_PYTORCH_RATES));
  std::map<std::string, int> schedules;
  for (const nlohmann::json& recorded : all) {
    const LearningRateSchedule schedule = described_by(recorded);
    const auto rates = recorded.at("rates").get<std::vector<double>>();
    ASSERT_EQ(rates.size(), 100U);
    for (std::size_t step = 0; step < rates.size(); ++step) {
      EXPECT_NEAR(learning_rate(schedule, static_cast<std::int64_t>(step), 100), rates[step], 1e-12)
          << to_text(schedule, 100) << ", step " << step;
    }
    ++schedules[recorded.at("schedule")];
  }
  for (const auto& [name, decay] : decays) EXPECT_GE(schedules[name], 2) << name;
}

}  // namespace
}  // namespace lockstep::nn
