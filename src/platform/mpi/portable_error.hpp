// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep {

/// Serialize an error for another rank of the same program, without its peers and source location.
std::string to_text(const Error& error);
Error error_from_text(const std::string& text);

}  // namespace lockstep
