// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include "apps/cli/command_line.hpp"
#include "apps/train/options/options.hpp"
#include "apps/train/options/rows.hpp"
#include "base/text_file.hpp"
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
  // Describing the options takes longer than reading most inputs, so it is done again only for what can be read.
  static const Registry registry;
  static train::Options described;
  static const cli::Program program = train::describe_train("train", registry, described);
  try {
    cli::read_command_line(3, arguments, program);
    train::parse_options(3, arguments, registry);
  } catch (const UsageError&) {
    return;
  }
}

const Registration configuration("configuration", parse_configuration);

}  // namespace
}  // namespace lockstep::fuzz
