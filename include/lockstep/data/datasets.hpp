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

/// Options for loading a data set; each data set uses those that it needs.
struct DatasetOptions {
  std::filesystem::path data_dir;  ///< directory of the files; synthetic data sets read none
  std::uint64_t seed = 1;          ///< seed of synthetic data
};

/// Whether a data set reads files from a directory.
enum class Directory { none, optional, required };

/// A data set that is available by name.
struct DatasetEntry {
  std::string name;
  /// Reads or generates the data set. The result must depend on the options and the files only, which are the same on
  /// all ranks.
  std::function<DatasetPair(const DatasetOptions&)> load;
  Directory directory = Directory::optional;
};

/// Data sets by name. It is empty at first; `Registry` has those of lockstep.
class Datasets {
 public:
  /// Adds a data set. @throws Error{invalid_argument} if its name is taken or `load` is empty
  void add(DatasetEntry entry);

  [[nodiscard]] std::vector<std::string_view> names() const;
  /// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list
  [[nodiscard]] Directory directory(std::string_view name) const;
  /// Loads a data set and checks it: both parts have samples and the same tensors and classes, the names of tensors are
  /// unique, and every extent is at least 1.
  /// @throws Error{invalid_argument} for an unknown name, with the nearest one and the list, for a data set that fails
  /// these checks, or if it needs a data_dir and there is none; Error{io} if a file is missing, cannot be read or does
  ///         not fit into memory;
  ///         Error{corrupt} if its contents are wrong; whatever else `load` throws
  [[nodiscard]] DatasetPair load(std::string_view name, const DatasetOptions& options = {}) const;

 private:
  [[nodiscard]] const DatasetEntry& at(std::string_view name) const;
  std::vector<DatasetEntry> entries_;
};

}  // namespace lockstep::data
