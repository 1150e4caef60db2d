// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/device/faults.hpp"

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

namespace emulated_gpu {
namespace {

struct Fault {
  std::string call;
  int first = 1;
  bool and_later = false;
  std::string error;
  int seen = 0;
};

std::vector<Fault> parse_faults(const std::string& list) {
  std::vector<Fault> faults;
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',');) {
    std::istringstream parts(entry);
    Fault fault;
    std::string first;
    std::getline(parts, fault.call, ':');
    std::getline(parts, first, ':');
    std::getline(parts, fault.error);
    fault.first = std::atoi(first.c_str());
    fault.and_later = first.ends_with('+');
    faults.push_back(fault);
  }
  return faults;
}

struct Faults {
  std::mutex mutex;
  std::vector<Fault> list;
  std::ofstream calls;  // one name in each line
  bool records = false;
  std::vector<std::string> recorded;
};

Faults& faults() {
  static Faults* all = [] {
    auto* made = new Faults;
    if (const char* list = std::getenv("EMULATED_GPU_FAULTS")) made->list = parse_faults(list);
    if (const char* file = std::getenv("EMULATED_GPU_CALLS")) made->calls.open(file);
    return made;
  }();
  return *all;
}

}  // namespace

std::optional<std::string> injected_fault(const std::string& call) {
  const std::scoped_lock lock(faults().mutex);
  std::optional<std::string> error;
  for (Fault& fault : faults().list) {
    if (fault.call != call) continue;
    ++fault.seen;
    if (fault.seen == fault.first || (fault.and_later && fault.seen > fault.first)) error = fault.error;
  }
  return error;
}

void set_faults(const std::string& list) {
  const std::scoped_lock lock(faults().mutex);
  faults().list = parse_faults(list);
}

void record_call(const std::string& call) {
  const std::scoped_lock lock(faults().mutex);
  if (faults().calls.is_open()) faults().calls << call << std::endl;  // a process may be killed
  if (faults().records) faults().recorded.push_back(call);
}

void record_calls() {
  const std::scoped_lock lock(faults().mutex);
  faults().recorded.clear();
  faults().records = true;
}

std::vector<std::string> recorded_calls() {
  const std::scoped_lock lock(faults().mutex);
  faults().records = false;
  return std::exchange(faults().recorded, {});
}

}  // namespace emulated_gpu
