// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

namespace lockstep::testing_support {

struct ProgramResult {
  int exit_code = -1;
  std::string output;  ///< standard output, and standard error if the command has `2>&1`
};

/// Runs a shell command to its end.
inline ProgramResult run_program(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start a shell for: " + command);
  ProgramResult result;
  std::array<char, 4096> part{};
  for (std::size_t read = 0; (read = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    result.output.append(part.data(), read);
  }
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

/// Returns the number in an environment variable, or another one if it is not set.
inline unsigned number_from(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::stoul(text));
}

/// Returns how often `part` occurs in `text`.
inline int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// Joins the words, with a space after each, so that line breaks for a terminal do not matter.
inline std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += word + ' ';
  return line;
}

/// Returns whether this launcher is Open MPI's.
inline bool is_open_mpi(const std::string& mpiexec) {
  const std::string version = run_program(mpiexec + " --version 2>&1").output;
  return occurrences(version, "Open MPI") + occurrences(version, "OpenRTE") + occurrences(version, "PRTE") > 0;
}

/// Returns the flag that makes this launcher keep the other ranks alive when one has died; empty if there is none.
/// MPICH's -disable-auto-cleanup does not help, because all ranks are still killed some milliseconds later.
inline std::string recovery_flag(const std::string& mpiexec) {
  return is_open_mpi(mpiexec) ? " --enable-recovery" : "";
}

}  // namespace lockstep::testing_support
