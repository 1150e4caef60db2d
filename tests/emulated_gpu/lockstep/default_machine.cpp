// SPDX-License-Identifier: Apache-2.0
// Gives a program that is run by hand the machine of the tests, unless the environment names another.
#include <cstdlib>

namespace {

[[maybe_unused]] const int named = setenv("EMULATED_GPU_MACHINE", LOCKSTEP_DEFAULT_MACHINE, 0);

}  // namespace
