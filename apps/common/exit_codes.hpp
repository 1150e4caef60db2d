// SPDX-License-Identifier: Apache-2.0
#pragma once

// What apps return to the shell is what any program does that ends by lockstep::run: `ExitCode`.
#include "lockstep/platform/mpi/world.hpp"
