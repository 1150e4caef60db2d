// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// What an app returns to the shell. Where a process is killed, mpirun reports 128 + the signal's number instead.
enum ExitCode : int {
  exit_success = 0,
  exit_error = 1,    ///< something failed; one line on standard error says what, and on which rank
  exit_usage = 2,    ///< the command line or the configuration file is wrong; nothing was started
  exit_stopped = 3,  ///< a signal ended the run in good order, before it was completed
};

}  // namespace lockstep
