// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "state/checkpoint_folder.hpp"
#include "state/safetensors_file.hpp"

namespace lockstep::state {

/// Values that follow from a step.
inline std::vector<float> values_of(std::int64_t step, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<float>(step));
  return values;
}

/// Writes one file of a checkpoint with two tensors, and returns its record.
inline StateFile::Record write_small_file(const std::filesystem::path& path, std::int64_t step, std::int64_t count) {
  const auto header = SafetensorsHeader::of({{"weight", DType::float32, {count}}, {"bias", DType::float32, {3}}});
  SafetensorsWriter::create(path, header);
  const SafetensorsWriter writer(path, header);
  std::vector<float> weight = values_of(step, count);
  std::vector<float> bias = values_of(step, 3);
  const auto sums = tensor_checksums(
      header, {writer.write(header.index_of("weight"), {0}, weight), writer.write(header.index_of("bias"), {0}, bias)});
  writer.sync();
  StateFile::Record record{file_checksum(header, sums), {}};
  for (std::size_t i = 0; i < sums.size(); ++i) record.tensors[header.tensors()[i].name] = sums[i].crc;
  return record;
}

/// Saves a checkpoint whose content follows from the step, as a trainer does.
inline std::filesystem::path save_small(CheckpointFolder& folder, std::int64_t step, std::int64_t count = 1000) {
  NewCheckpoint checkpoint(folder, step);
  StateFile state;
  state.sections["run"]["step"] = step;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    state.files[file] = write_small_file(checkpoint.path() / file, step, count);
  }
  return checkpoint.commit(state);
}

}  // namespace lockstep::state
