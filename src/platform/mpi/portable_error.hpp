// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep {

/// An error as bytes that another rank of the same program can read; its peers and its source location stay behind.
std::string to_text(const Error& error);
Error error_from_text(const std::string& text);

}  // namespace lockstep
