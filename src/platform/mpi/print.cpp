// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/print.hpp"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

namespace lockstep {

void print_error(std::string_view program, std::string_view what) {
  (void)flush_output();
  const std::string line = std::string(program) + ": " + std::string(what) + '\n';
  std::fputs(line.c_str(), stderr);
}

std::optional<std::string> flush_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return std::nullopt;
  return errno != 0 ? std::generic_category().message(errno) : "an earlier write has failed";
}

}  // namespace lockstep
