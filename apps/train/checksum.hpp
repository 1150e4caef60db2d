// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"

namespace lockstep::train {

/// SHA-256 of the elements of all tensors as they lie in memory, in the layout's order and without what is between
/// them, in hexadecimal: equal for equal weights, however they were come by.
/// @param flat  of the layout, in memory of the host
std::string sha256(const Layout& layout, const Buffer& flat);

}  // namespace lockstep::train
