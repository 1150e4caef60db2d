// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace lockstep::cli {
namespace {

/// Returns the file that is a process's standard output; "" if it cannot be read.
std::string output_of(const std::string& process) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + process + "/fd/1", error).string();
}

bool is_terminal(const std::string& file) { return file.starts_with("/dev/pts/") || file.starts_with("/dev/tty"); }

/// Returns whether a launcher started this process. It reads the initial environment, because without a launcher
/// MPI_Init itself sets such variables in the current one.
bool under_launcher() {
  std::ifstream environment("/proc/self/environ");
  for (std::string entry; std::getline(environment, entry, '\0');) {
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE=", "PMIX_RANK=", "PMI_SIZE=", "SLURM_STEP_NUM_TASKS="}) {
      if (entry.starts_with(variable)) return true;
    }
  }
  return false;
}

}  // namespace

bool shows_on_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  if (!under_launcher()) return true;
  const std::string of_parent = output_of(std::to_string(getppid()));
  return is_terminal(of_parent) && of_parent != output_of("self");
}

std::optional<std::size_t> terminal_columns() {
  const char* variable = std::getenv("COLUMNS");
  if (const int columns = variable == nullptr ? 0 : std::atoi(variable); columns > 0) return columns;
  if (!shows_on_terminal()) return std::nullopt;
  const std::string file = output_of(under_launcher() ? std::to_string(getppid()) : "self");
  const int terminal = open(file.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return std::nullopt;
  winsize size{};
  const bool told = ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  close(terminal);
  return told ? std::optional<std::size_t>(size.ws_col) : std::nullopt;
}

std::size_t table_columns() {
  constexpr std::size_t wide = 100;
  constexpr std::size_t narrow = 80;
  return terminal_columns().value_or(wide) >= wide ? wide : narrow;
}

}  // namespace lockstep::cli
