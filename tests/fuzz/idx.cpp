// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/idx.hpp"

#include "fuzz/input_folder.hpp"
#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void read_array(const std::string& input) {
  static const InputFolder folder;
  const std::filesystem::path path = folder.write("array", input);
  for (const int dimensions : {1, 3}) {
    vision::IdxFile file;
    try {
      file = vision::read_idx(path, dimensions);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::corrupt, "another code");
      continue;
    }
    std::int64_t count = 1;
    for (const std::int64_t size : file.sizes) count *= size;
    require(std::ssize(file.sizes) == dimensions && std::ssize(file.bytes) == count && count > 0, "extents");
  }
}

/// gzip packs 1,032 bytes into one, and while a vector grows there are two of it.
const Registration idx("idx", read_array, 4096);

}  // namespace
}  // namespace lockstep::fuzz
