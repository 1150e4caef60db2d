// SPDX-License-Identifier: Apache-2.0
#include "ops/libraries.hpp"

namespace lockstep::ops::test {
namespace {

std::vector<float> converted(Ops& ops, const std::vector<float>& values, const Format& from, const Format& to) {
  std::vector<float> result((static_cast<std::size_t>(to.bytes.value) + sizeof(float) - 1) / sizeof(float));
  const void* input = values.data();
  ops.reorder(from, to)->run(Pass::forward, {.inputs = std::span(&input, 1), .output = result.data()});
  return result;
}

}  // namespace

std::vector<float> to_format(Ops& ops, const std::vector<float>& plain, const Format& format) {
  if (format.native == nullptr) return plain;
  return converted(ops, plain, Format::plain(format.shape, DType::float32), format);
}

std::vector<float> from_format(Ops& ops, const std::vector<float>& values, const Format& format) {
  if (format.native == nullptr) return values;
  return converted(ops, values, format, Format::plain(format.shape, DType::float32));
}

}  // namespace lockstep::ops::test
