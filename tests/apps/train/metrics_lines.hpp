// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/train/train_program.hpp"

/// This is separate from `train_program.hpp`, because it takes longer to compile than most tests that run train.
namespace lockstep::train {

/// Returns the lines of a metrics file.
inline std::vector<nlohmann::json> read_metrics(const std::filesystem::path& path) {
  std::vector<nlohmann::json> events;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

/// Trains. @param metrics  a file, which is overwritten
/// @return the digest of the weights, and the metrics of the last evaluation
inline nlohmann::json final_results(int ranks, const std::string& arguments, const std::string& metrics) {
  std::filesystem::remove(metrics);
  const auto result = run_train(ranks, arguments + " --metrics " + metrics);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  nlohmann::json found;
  const auto events = read_metrics(metrics);
  if (events.empty()) return found;
  for (const auto& [name, value] : events.back().items())
    if (name.starts_with("final_") || name == "weights_sha256") found[name] = value;
  return found;
}

}  // namespace lockstep::train
