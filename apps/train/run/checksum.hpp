// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"

namespace lockstep::train {

/// Returns the SHA-256 of the elements of all tensors as they are in memory, in the layout's order and without the
/// padding between them, in hexadecimal. Equal weights have equal checksums, however they were computed.
/// @param flat  in the layout, in host memory
std::string sha256(const Layout& layout, const Buffer& flat);

}  // namespace lockstep::train
