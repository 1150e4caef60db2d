// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"
#include "nn/description/description.hpp"

namespace lockstep::fuzz {
namespace {

/// Reads metadata from the input: names and texts in turn, each ended by a zero byte.
nn::Metadata metadata_of(const std::string& input) {
  nn::Metadata metadata;
  for (std::size_t at = 0; at < input.size();) {
    const std::string name = input.c_str() + at;
    at += name.size() + 1;
    const std::string text = at < input.size() ? input.c_str() + at : "";
    at += text.size() + 1;
    metadata["lockstep." + name] = text;
  }
  return metadata;
}

void read_description(const std::string& input) {
  std::optional<nn::ModelDescription> description;
  try {
    description = nn::description_of(metadata_of(input), "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  if (!description) return;
  const nn::Metadata written = nn::to_metadata(*description);
  const auto again = nn::description_of(written, "again");
  require(again.has_value() && nn::to_metadata(*again) == written, "the description changes");
}

const Registration model_description("model_description", read_description);

}  // namespace
}  // namespace lockstep::fuzz
