// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// Parsers of untrusted files. libFuzzer runs each of them with inputs that it makes up (mpi-scripts/check/fuzz.sh),
/// and a test runs all of them with the seeds.
namespace lockstep::fuzz {

struct Target {
  std::string name;  ///< that of the folder of its seeds
  /// Parses an input. It throws what the parser does not document, or std::logic_error if a result is wrong.
  void (*run)(const std::string& input);
  std::int64_t most_bytes_per_input_byte;  ///< of memory that the parser may hold
};

/// The targets of this executable.
inline std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

/// Adds a target before main() begins.
struct Registration {
  Registration(const char* name, void (*run)(const std::string&), std::int64_t most_bytes_per_input_byte = 64) {
    targets().push_back({name, run, most_bytes_per_input_byte});
  }
};

/// Throws std::logic_error if a result is wrong.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace lockstep::fuzz
