// SPDX-License-Identifier: Apache-2.0
#include "vision/source/file_source.hpp"

#include "vision/source/files.hpp"

namespace lockstep::vision {

void FileSource::read(std::int64_t sample, std::vector<std::byte>& bytes) const {
  read_file(folder_ / at(sample).path, bytes);
}

}  // namespace lockstep::vision
