// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::test {

/// Wraps a compute library of a device so that all its operands are in memory of the host: each call copies them to the
/// device and back. The suites for libraries of the host then hold for it, too.
/// @param merges  whether graphs may have batch norms of two inputs, if the library can compute them
std::unique_ptr<Ops> make_hosted_ops(std::unique_ptr<Ops> inner, bool merges = true);

}  // namespace lockstep::ops::test
