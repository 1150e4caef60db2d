// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "support/run_program.hpp"
#include "support/verdict.hpp"

namespace lockstep::testing_support {

inline constexpr int not_permitted = 77;

inline std::string script(const std::string& arguments) {
  return std::string("MPIEXEC=") + LOCKSTEP_MPIEXEC + ' ' + LOCKSTEP_HOSTS_SCRIPT + ' ' + arguments;
}

/// A fixture that skips if the machine does not allow namespaces.
class Hosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_open_mpi(LOCKSTEP_MPIEXEC))
      LOCKSTEP_SKIP(mpi) << "between namespaces of one machine MPICH now and then does not return from MPI_Finalize";
    const ProgramResult probe = run_program(script("run true 2>&1"));
    if (probe.exit_code == not_permitted) LOCKSTEP_SKIP(namespaces) << probe.output;
    ASSERT_EQ(probe.exit_code, 0) << probe.output;
  }
};

}  // namespace lockstep::testing_support
