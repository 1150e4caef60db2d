// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/process.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>

namespace lockstep {
namespace {

/// Returns the fields of a `stat` file behind the name of the process, which may contain anything.
std::istringstream fields_of(const std::filesystem::path& folder) {
  std::string text;
  std::getline(std::ifstream(folder / "stat"), text);
  return std::istringstream(text.substr(std::min(text.size(), text.rfind(')') + 1)));
}

std::filesystem::path folder_of(int process) { return std::filesystem::path("/proc") / std::to_string(process); }

std::uint64_t processor_time(const std::filesystem::path& task) {
  std::istringstream fields = fields_of(task);
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;  // from the state to the major faults of children
  std::uint64_t in_user_mode = 0;
  std::uint64_t in_the_kernel = 0;
  fields >> in_user_mode >> in_the_kernel;
  return in_user_mode + in_the_kernel;
}

std::uint64_t bytes_moved(const std::filesystem::path& task) {
  std::ifstream file(task / "io");
  std::uint64_t bytes = 0;
  std::uint64_t value = 0;
  for (std::string name; file >> name >> value;)
    if (name == "rchar:" || name == "wchar:") bytes += value;
  return bytes;
}

std::string this_thread() { return std::to_string(syscall(SYS_gettid)); }

/// The threads that are onlookers, which lives until the process ends.
struct Onlookers {
  std::mutex mutex;
  std::set<std::string> threads;
};

Onlookers& onlookers() {
  static Onlookers all;
  return all;
}

}  // namespace

int parent_of(int process) {
  char state = ' ';
  int parent = 0;
  fields_of(folder_of(process)) >> state >> parent;
  return parent;
}

std::string process_state(int process) {
  char state = ' ';
  fields_of(folder_of(process)) >> state;
  switch (state) {
    case 'R': return "running";
    case 'S':
    case 'I': return "sleeping";
    case 'T':
    case 't': return "stopped";
    case 'D': return "in an uninterruptible wait";
    default: return "gone";
  }
}

std::uint64_t work_of_other_threads() {
  std::set<std::string> left_out = {this_thread()};
  {
    const std::lock_guard lock(onlookers().mutex);
    left_out.insert(onlookers().threads.begin(), onlookers().threads.end());
  }
  std::uint64_t work = 0;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none))
    if (!left_out.contains(task.path().filename())) work += processor_time(task) + bytes_moved(task);
  return work;
}

Onlooker::Onlooker() {
  const std::lock_guard lock(onlookers().mutex);
  onlookers().threads.insert(this_thread());
}

Onlooker::~Onlooker() {
  const std::lock_guard lock(onlookers().mutex);
  onlookers().threads.erase(this_thread());
}

}  // namespace lockstep
