// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::testing_support {

/// Asks every 10 ms until the answer is yes. @return false if that took too long
template <typename Question>
bool becomes_true(std::chrono::duration<double> within, const Question& question) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!question()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// A command that runs beside the test in its own process group, as if a shell had started it on a terminal.
class BackgroundJob {
 public:
  /// @param output  a file for both streams
  BackgroundJob(const std::string& command, const std::filesystem::path& output) : pid_(fork()) {
    if (pid_ == 0) {
      setpgid(0, 0);
      for (const int signal : {SIGHUP, SIGINT}) std::signal(signal, SIG_DFL);  // if nohup or a shell started the test
      const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      dup2(file, STDOUT_FILENO);
      dup2(file, STDERR_FILENO);
      execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
      _exit(127);
    }
    setpgid(pid_, pid_);
  }
  ~BackgroundJob() {
    if (has_ended()) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  /// Sends a signal to all its processes, as Ctrl-C does, except to those in another process group.
  void send(int signal) const { kill(-pid_, signal); }

  [[nodiscard]] bool has_ended() {
    int status = 0;
    if (!exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return exit_code_.has_value();
  }
  /// Returns the exit code. @pre it has ended
  [[nodiscard]] int exit_code() const { return exit_code_.value(); }

 private:
  pid_t pid_;
  std::optional<int> exit_code_;
};

/// Returns a variable of the environment with which a process was started; empty if it is not set.
inline std::string environment_of(pid_t process, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  for (std::string text; std::getline(file, text, '\0');)
    if (text.starts_with(name + '=')) return text.substr(name.size() + 1);
  return {};
}

/// Returns the rank that a launcher has given to a process; −1 without a launcher.
inline int rank_of(pid_t process) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const std::string rank = environment_of(process, name); !rank.empty()) return std::stoi(rank);
  return -1;
}

/// Returns all processes of the machine whose command line begins with `program` and contains `marker`, by rank. The
/// order of their numbers would not do: Linux begins again with small ones.
inline std::vector<pid_t> processes(const std::string& program, const std::string& marker) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    std::ostringstream line;  // it stays empty if the process ends meanwhile; a bare iterator would throw
    line << std::ifstream(entry.path() / "cmdline").rdbuf();
    const std::string words = line.str();
    if (pid > 0 && words.starts_with(program) && words.find(marker) != std::string::npos) found.push_back(pid);
  }
  std::vector<std::pair<int, pid_t>> by_rank;
  for (const pid_t pid : found) by_rank.emplace_back(rank_of(pid), pid);
  std::sort(by_rank.begin(), by_rank.end());
  std::transform(by_rank.begin(), by_rank.end(), found.begin(), [](const auto& entry) { return entry.second; });
  return found;
}

}  // namespace lockstep::testing_support
