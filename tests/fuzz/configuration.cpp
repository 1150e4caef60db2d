// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include "apps/common/command_line.hpp"
#include "apps/train/options.hpp"
#include "base/descriptor.hpp"
#include "fuzz/targets.hpp"

namespace lockstep::fuzz {
namespace {

/// Parses a configuration file of `train`, which is in memory.
void parse_configuration(const std::string& input) {
  const Descriptor file(memfd_create("configuration", MFD_CLOEXEC));
  if (write(file.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
    throw std::runtime_error("no file in memory");
  }
  std::string path = "/proc/self/fd/" + std::to_string(file.get());
  std::string words[] = {"train", "--config"};
  char* arguments[] = {words[0].data(), words[1].data(), path.data(), nullptr};
  static const Registry registry;  // making one takes longer than parsing most inputs
  try {
    train::parse_options(3, arguments, registry);
  } catch (const UsageError&) {
    return;
  }
}

const Registration configuration("configuration", parse_configuration);

}  // namespace
}  // namespace lockstep::fuzz
