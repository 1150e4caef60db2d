// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::test {

/// Returns the compute libraries that a test program tests in float32, all with operands in memory of the host: those
/// for CPUs, of which the reference is the first, or in the tests on emulated GPUs the one for GPUs.
std::vector<std::unique_ptr<Ops>> libraries();
/// Returns those with native kernels in bfloat16; empty if there are none.
std::vector<std::unique_ptr<Ops>> bfloat16_libraries();

/// Returns plain values in the layout of a format of the library. It has as many bytes as the format.
std::vector<float> to_format(Ops& ops, const std::vector<float>& plain, const Format& format);
/// Returns plain values from the layout of a format.
std::vector<float> from_format(Ops& ops, const std::vector<float>& values, const Format& format);

}  // namespace lockstep::ops::test
