// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "data/idx_files.hpp"
#include "support/run_program.hpp"

/// Runs `train` as a user does: a command under mpiexec.
namespace lockstep::train {

using testing_support::occurrences;
using testing_support::ProgramResult;

/// Nothing is saved unless the arguments say where.
inline std::string train_command(int ranks, const std::string& arguments) {
  return std::string(LOCKSTEP_MPIEXEC) + " -np " + std::to_string(ranks) + ' ' + LOCKSTEP_TRAIN + ' ' + arguments +
         (arguments.find("--save-dir") == std::string::npos ? " --save-dir none" : "");
}

/// Runs to the end. The output is that of both streams.
inline ProgramResult run_train(int ranks, const std::string& arguments) {
  return testing_support::run_program(train_command(ranks, arguments) + " 2>&1");
}

inline std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Expects one report, from one rank, that contains all these parts.
inline void expect_refused(const ProgramResult& result, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result.output;
  EXPECT_EQ(occurrences(result.output, "train: "), 1) << result.output;
  for (const std::string& part : parts) EXPECT_EQ(occurrences(result.output, part), 1) << part << '\n' << result.output;
}

/// A folder with a few images in MNIST's format, so that a run is short. The folder is removed at the end.
class SmallDigits {
 public:
  static constexpr std::uint32_t train_size = 96;
  static constexpr std::uint32_t test_size = 32;
  static constexpr std::uint32_t side = 8;

  SmallDigits() {
    write_part("train", train_size);
    write_part("t10k", test_size);
  }

  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return directory_.path() / name; }
  [[nodiscard]] std::string path(const std::string& name) const { return file(name).string(); }
  /// Returns the options that select these images.
  [[nodiscard]] std::string arguments() const { return " --dataset mnist --data-dir " + directory_.path().string(); }

  void write_images(const std::string& part, std::uint32_t count, std::size_t factor = 1) const {
    std::string pixels(std::size_t{count} * side * side, '\0');
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>(factor * i * i % 251);
    data::write_plain(file(part + "-images-idx3-ubyte"), data::idx_bytes({count, side, side}, pixels));
  }
  void write_labels(const std::string& part, std::uint32_t count) const {
    std::string labels(count, '\0');
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<char>(i % 10);
    data::write_plain(file(part + "-labels-idx1-ubyte"), data::idx_bytes({count}, labels));
  }

 private:
  void write_part(const std::string& part, std::uint32_t count) const {
    write_images(part, count);
    write_labels(part, count);
  }

  data::TemporaryDirectory directory_;
};

}  // namespace lockstep::train
