// SPDX-License-Identifier: Apache-2.0
#pragma once

// Apps return an `ExitCode` to the shell, as every program does that ends with lockstep::run.
#include "lockstep/platform/mpi/world.hpp"
