// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends/message_library.hpp"

namespace lockstep {

/// The MPI library, as what carries the messages of its ranks.
const backends::MessageLibrary& mpi_messages();

}  // namespace lockstep
