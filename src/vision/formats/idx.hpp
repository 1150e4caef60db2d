// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lockstep::vision {

/// A file of unsigned bytes in the IDX format: big-endian magic number (type and number of dimensions), sizes, data.
struct IdxFile {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> bytes;  ///< product of `sizes`, row-major
};

/// Reads an IDX file of unsigned bytes, plain or gzipped; the contents decide which, not the name.
/// @param dimensions  3 for images (count × height × width), 1 for labels
/// @throws Error{io} if it cannot be opened or read; Error{corrupt} if it is empty, another kind of file, damaged,
///         shorter or longer than its header says
/// @source LeCun, Cortes, Burges: The MNIST database of handwritten digits, "File formats"
IdxFile read_idx(const std::filesystem::path& path, int dimensions);

}  // namespace lockstep::vision
