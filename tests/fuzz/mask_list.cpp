// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/mask_list.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_list_of_masks(const std::string& input) {
  std::vector<vision::MaskPair> pairs;
  try {
    pairs = vision::parse_mask_list(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  for (const vision::MaskPair& pair : pairs) {
    require(!pair.picture.empty(), "a line without a picture");
    require(!pair.mask.empty(), "a line without a mask");
  }
}

const Registration mask_list("mask_list", parse_list_of_masks);

}  // namespace
}  // namespace lockstep::fuzz
