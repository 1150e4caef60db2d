// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vision/formats/data_format.hpp"

/// What parts of MNIST and CIFAR-10 consist of.
namespace lockstep::vision {

inline std::int64_t classes_of(const Part& part) { return std::ssize(part.source->class_names()); }

inline std::vector<std::int32_t> labels_of(const Part& part) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < part.source->size(); ++i) labels.push_back(part.source->annotation(i).label);
  return labels;
}

/// Returns a picture with the channels that are stored.
inline Image picture_of(const Part& part, std::int64_t sample) {
  std::vector<std::byte> bytes;
  Image picture;
  part.source->read(sample, bytes);
  part.source->decode(sample, bytes, {.channels = 0}, picture);
  return picture;
}

}  // namespace lockstep::vision
