// SPDX-License-Identifier: Apache-2.0
#include "state/safetensors.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_safetensors(const std::string& input) {
  state::SafetensorsHeader header;
  const Bytes size{static_cast<std::int64_t>(input.size())};
  try {
    header = state::SafetensorsHeader::parse(input, size, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported, "another code");
    return;
  }
  require(header.file_bytes() == size, "the tensors do not fill the file");
  const auto laid_out = state::SafetensorsHeader::of(header.tensors(), header.metadata());
  const auto again = state::SafetensorsHeader::parse(laid_out.text(), laid_out.file_bytes(), "again");
  require(again.tensors() == laid_out.tensors() && again.metadata() == header.metadata(), "the header changes");
}

const Registration safetensors("safetensors", parse_safetensors);

}  // namespace
}  // namespace lockstep::fuzz
