// SPDX-License-Identifier: Apache-2.0
#include "mpi/print.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <system_error>

#include "base/nearest.hpp"

namespace lockstep {

void print_error(std::string_view program, std::string_view what) {
  (void)flush_output();
  print_line(program, what);
}

void print_line(std::string_view program, std::string_view what) {
  const std::string line = echo(program) + ": " + echo_lines(what) + '\n';
  std::fputs(line.c_str(), stderr);
}

void print_details(std::string_view text, std::string_view prefix) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.append(prefix).append(echo_lines(text.substr(0, end))) += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::fputs(lines.c_str(), stderr);
}

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // It gets the lowest free number, because all below are open.
    if (open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

std::optional<std::string> flush_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return std::nullopt;
  return errno != 0 ? std::generic_category().message(errno) : "an earlier write has failed";
}

}  // namespace lockstep
