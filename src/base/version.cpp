// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/version.hpp"

#define LOCKSTEP_TEXT_OF(number) #number
#define LOCKSTEP_VERSION_TEXT(major, minor, patch) \
  LOCKSTEP_TEXT_OF(major) "." LOCKSTEP_TEXT_OF(minor) "." LOCKSTEP_TEXT_OF(patch)

namespace lockstep {

std::string_view version() noexcept {
  return LOCKSTEP_VERSION_TEXT(LOCKSTEP_VERSION_MAJOR, LOCKSTEP_VERSION_MINOR, LOCKSTEP_VERSION_PATCH);
}

}  // namespace lockstep
