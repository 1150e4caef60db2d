// SPDX-License-Identifier: Apache-2.0
// train trains a CNN on all ranks of the job.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "lockstep/train.hpp"

namespace {

/// Waiting threads of GNU's OpenMP spin for milliseconds by default. If another process needs their processor, it waits
/// for them meanwhile, and then they for it. 3,000 rounds take about 0.1 ms, longer than most gaps between the
/// operators of a step. OpenMP reads the variable only when it is loaded, so the program starts once more.
void bound_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "3000", 1);
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  execv(program.c_str(), argv);  // where it fails, threads spin for longer
}

}  // namespace

int main(int argc, char** argv) {
  bound_spinning(argv);
  return lockstep::train_main(argc, argv);
}
