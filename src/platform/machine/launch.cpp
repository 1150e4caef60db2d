// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/launch.hpp"

#include <unistd.h>

#include <charconv>
#include <string_view>

namespace lockstep {
namespace {

std::optional<int> number(const Environment& environment, const std::string& variable) {
  const auto found = environment.find(variable);
  if (found == environment.end()) return std::nullopt;
  int value = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string explain(const std::string& variable, int value, bool slurm) {
  std::string text = "the launcher started several processes (" + variable + "=" + std::to_string(value) +
                     "), but MPI reports each of them as rank 0 of 1, so every one would run the whole job alone: the "
                     "launcher and the MPI library this program is linked with do not speak the same protocol. ";
  if (slurm) {
    text +=
        "Try `srun --mpi=pmix` (`srun --mpi=list` shows what this Slurm offers), or start the program with the "
        "mpirun of that MPI library";
  } else {
    text +=
        "Start it with the mpirun of that MPI library (`ldd` on the program shows which one), or under Slurm with "
        "`srun --mpi=pmix` (`srun --mpi=list` shows what is offered)";
  }
  return text;
}

}  // namespace

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::optional<std::string> launch_mistake(const Environment& environment, int mpi_size) {
  if (mpi_size != 1) return std::nullopt;
  const bool slurm = environment.contains("SLURM_STEP_NUM_TASKS");
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const auto size = number(environment, variable);
    if (!size) continue;
    if (*size > 1) return explain(variable, *size, slurm);
    return std::nullopt;
  }
  const auto rank = number(environment, "PMIX_RANK");
  if (rank && *rank > 0) return explain("PMIX_RANK", *rank, slurm);
  return std::nullopt;
}

bool first_process(const Environment& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const auto rank = number(environment, variable)) return *rank == 0;
  }
  return true;
}

}  // namespace lockstep
