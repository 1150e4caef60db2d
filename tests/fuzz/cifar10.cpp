// SPDX-License-Identifier: Apache-2.0
#include "fuzz/input_folder.hpp"
#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/sources.hpp"

namespace lockstep::fuzz {
namespace {

void read_test_part(const std::string& input) {
  static const InputFolder folder;
  folder.write("test_batch.bin", input);
  vision::Parts parts;
  try {
    parts = vision::open_cifar10({.data = folder.path(), .evaluates_only = true});
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  constexpr std::int64_t record_bytes = 1 + 3 * 32 * 32;
  require(parts.train.source == nullptr, "a training part without files");
  require(parts.val.source->size() * record_bytes == std::ssize(input), "records");
}

const Registration cifar10("cifar10", read_test_part);

}  // namespace
}  // namespace lockstep::fuzz
