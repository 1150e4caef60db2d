// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/device/violation.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace emulated_gpu {
namespace {

// The text is written with write(2), because the caller may be a signal handler on a thread that holds any lock.
void write_text(const std::string& text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(violation_status);
}

}  // namespace

void violation(const std::string& what) {
  const char* seed = std::getenv("EMULATED_GPU_SEED");
  const char* order = std::getenv("EMULATED_GPU_ORDER");
  write_text("emulated GPU: " + what + "\nemulated GPU: EMULATED_GPU_SEED=" + (seed == nullptr ? "0" : seed) +
             (order == nullptr ? "" : std::string(" EMULATED_GPU_ORDER=") + order) + ", the host's stack:\n");
  std::array<void*, 48> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  _exit(violation_status);
}

}  // namespace emulated_gpu
