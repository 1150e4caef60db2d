// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.hpp"

namespace lockstep::data {

/// What a data set is read or drawn by; each takes from it what it needs.
struct DatasetOptions {
  std::filesystem::path data_dir;  ///< where files are; the drawn data sets read none
  std::uint64_t seed = 1;          ///< of what is drawn at random
};

/// Whether a data set reads files from a directory.
enum class Directory { none, optional, required };

/// A data set that can be asked for by name.
struct DatasetEntry {
  std::string name;
  /// Reads or draws it. It must depend on nothing but the options and the files, which are the same on all ranks.
  std::function<DatasetPair(const DatasetOptions&)> load;
  Directory directory = Directory::optional;
};

/// Data sets by name. At first those that come with lockstep: mnist, cifar10, and those that are drawn.
class Datasets {
 public:
  Datasets();
  /// One more. @throws Error{invalid_argument} if its name is taken, or it cannot be loaded since `load` is empty
  void add(DatasetEntry entry);

  [[nodiscard]] std::vector<std::string_view> names() const;
  /// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list
  [[nodiscard]] Directory directory(std::string_view name) const;
  /// Reads or draws a data set, and checks that both its parts have samples, and the same tensors and classes; that
  /// tensors' names are unique; and that no extent is less than 1.
  /// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list, for a data set that does
  ///         not keep to that, or without the data_dir that it needs; Error{io} if a file is missing, cannot be read or
  ///         does not fit into memory; Error{corrupt} if its contents are wrong; whatever else `load` throws
  [[nodiscard]] DatasetPair load(std::string_view name, const DatasetOptions& options = {}) const;

 private:
  [[nodiscard]] const DatasetEntry& at(std::string_view name) const;
  std::vector<DatasetEntry> entries_;
};

}  // namespace lockstep::data
