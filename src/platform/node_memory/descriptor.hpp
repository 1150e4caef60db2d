// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "base/descriptor.hpp"

namespace lockstep {

/// A text such as "bind: Address already in use", from the name of the call and errno.
inline std::string failed(const char* call) { return call + (": " + std::generic_category().message(errno)); }

}  // namespace lockstep
