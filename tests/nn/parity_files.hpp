// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/layout.hpp"

namespace lockstep::nn {

/// A file of raw little-endian numbers, one array after another.
class RawWriter {
 public:
  explicit RawWriter(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {}

  template <typename T>
  void write(const T* values, std::int64_t count) {
    file_.write(reinterpret_cast<const char*>(values), count * static_cast<std::int64_t>(sizeof(T)));
    if (!file_.flush()) throw Error(ErrorCode::io, "cannot write " + path_.string());
  }
  /// Writes all tensors of a flat allocation in the layout's order, without the padding.
  template <typename T>
  void write_tensors(const std::vector<T>& values, const Layout& layout) {
    for (const TensorSlot& slot : layout.tensors()) write(values.data() + slot.offset.value, slot.count.value);
  }

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

class RawReader {
 public:
  explicit RawReader(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {}

  template <typename T>
  void read(T* values, std::int64_t count) {
    file_.read(reinterpret_cast<char*>(values), count * static_cast<std::int64_t>(sizeof(T)));
    if (!file_) throw Error(ErrorCode::io, path_.string() + " is missing or too short");
  }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
};

}  // namespace lockstep::nn
