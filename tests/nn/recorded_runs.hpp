// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/nn/models.hpp"

namespace lockstep::nn {

/// PyTorch's results for a run that lockstep can draw again.
struct RecordedRun {
  nlohmann::json of;
};

/// Names a failed run briefly, because all its numbers would be unreadable.
inline void PrintTo(const RecordedRun& run, std::ostream* out) {
  *out << run.of.at("model") << " with " << run.of.at("inputs");
}

inline std::vector<RecordedRun> recorded_runs(const char* file) {
  std::vector<RecordedRun> runs;
  for (nlohmann::json& run : nlohmann::json::parse(std::ifstream(file))) runs.push_back({std::move(run)});
  return runs;
}

inline DataSpec data_of(const nlohmann::json& run) {
  DataSpec data = Models().example(run.at("model").get<std::string>());
  for (TensorSpec& spec : data.tensors) {
    if (run.at("inputs").contains(spec.name)) spec.extent = run.at("inputs").at(spec.name);
  }
  data.classes = run.at("classes");
  return data;
}

inline std::string name_of(const testing::TestParamInfo<RecordedRun>& run) {
  std::string name = run.param.of.at("model").get<std::string>() + "_" + std::to_string(run.index);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace lockstep::nn
