// SPDX-License-Identifier: Apache-2.0
#include "vision/source/source.hpp"

#include "lockstep/base/error.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {

const std::vector<std::int64_t>& Source::category_ids() const {
  static const std::vector<std::int64_t> none;
  return none;
}

void Source::decode(std::int64_t sample, std::span<const std::byte> bytes, const DecodeOptions& options,
                    Image& picture) const {
  try {
    vision::decode(bytes, options, picture);
  } catch (const Error& error) {
    // A kind that no lockstep reads is a fault of the file; what this build lacks is not.
    const bool is_fault_of_file = error.code() == ErrorCode::unsupported && !is_supported(format_of(bytes));
    throw Error(is_fault_of_file ? ErrorCode::corrupt : error.code(), shown(place(sample)) + ": " + error.message());
  }
}

}  // namespace lockstep::vision
