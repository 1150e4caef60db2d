// SPDX-License-Identifier: Apache-2.0
#include "platform/machine/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "base/nearest.hpp"

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

bool has_any(const Environment& environment, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
    const auto at = environment.lower_bound(std::string(prefix));
    return at != environment.end() && at->first.starts_with(prefix);
  });
}

/// @param text  NAME=value
void add_variable(Environment& environment, std::string_view text) {
  const auto equals = text.find('=');
  if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
}

/// Returns the environment of a process; empty if it may not be read.
Environment environment_of(const std::filesystem::path& process) {
  Environment environment;
  std::ifstream file(process / "environ");
  for (std::string variable; std::getline(file, variable, '\0');) add_variable(environment, variable);
  return environment;
}

/// Whether a process has the same parent as this one and is stopped.
bool is_stopped_neighbor(const std::filesystem::path& process) {
  char state = ' ';
  pid_t parent = 0;
  stat_fields(process) >> state >> parent;
  return parent == getppid() && (state == 'T' || state == 't');
}

/// Whether torchrun, or `python -m torch.distributed.launch`, started this process or an ancestor of it.
bool is_from_torchrun(const Environment& environment) { return environment.contains("TORCHELASTIC_RUN_ID"); }

/// Says what the launcher and MPI disagree about, and what follows.
std::string disagreement(const std::string& launcher, const std::string& variable, int value, int mpi_size) {
  return launcher + " started several processes (" + variable + "=" + std::to_string(value) +
         "), but MPI reports each of them as " +
         (mpi_size == 1
              ? "rank 0 of 1, so every one would run the whole job alone"
              : "one of " + std::to_string(mpi_size) + " ranks, so several groups would each run the whole job");
}

std::string explain(const std::string& variable, int value, int mpi_size, bool slurm) {
  std::string text = disagreement("the launcher", variable, value, mpi_size) +
                     ": the launcher and the MPI library this program is linked with do not speak the same protocol. ";
  if (slurm) {
    text +=
        "Try `srun --mpi=pmix` (`srun --mpi=list` shows what this Slurm offers), or start the program with the "
        "mpirun of that MPI library. To run it alone, as one process of a shell that srun has started, put `env -u " +
        variable + (variable == "SLURM_STEP_NUM_TASKS" ? "" : " -u SLURM_STEP_NUM_TASKS") + "` before the command";
  } else {
    text +=
        "Start it with the mpirun of that MPI library (`ldd` on the program shows which one), or under Slurm with "
        "`srun --mpi=pmix` (`srun --mpi=list` shows what is offered)";
  }
  return text;
}

std::string explain_torchrun(const Environment& environment, int value, int mpi_size) {
  const int on_each_host = number(environment, "LOCAL_WORLD_SIZE").value_or(value);
  const std::string each = ':' + std::to_string(on_each_host);
  const std::string hosts = on_each_host < value ? " -H HOST1" + each + ",HOST2" + each + ",…" : "";
  return disagreement("torchrun", "WORLD_SIZE", value, mpi_size) +
         ": torchrun does not connect the ranks of MPI. Start the program with `mpirun -np " + std::to_string(value) +
         hosts + ' ' + program_invocation_name + " …`";
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? echo(name.data(), name.size()) : "this host";
}

std::string machine_identity(const std::string& otherwise) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : otherwise;
}

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    add_variable(environment, *entry);
  }
  return environment;
}

std::optional<std::string> launch_mistake(const Environment& environment, int mpi_size) {
  constexpr const char* mpirun = "OMPI_COMM_WORLD_SIZE";
  constexpr const char* pmi = "PMI_SIZE";
  constexpr const char* step = "SLURM_STEP_NUM_TASKS";
  if (mpi_size > 1 && (number(environment, mpirun) == mpi_size || number(environment, pmi) == mpi_size))
    return std::nullopt;
  if (const auto size = number(environment, "WORLD_SIZE"); size && *size > mpi_size && is_from_torchrun(environment))
    return explain_torchrun(environment, *size, mpi_size);
  const bool slurm = environment.contains(step);
  for (const char* variable : {mpirun, pmi, step}) {
    const auto size = number(environment, variable);
    if (!size) continue;
    if (*size > mpi_size) return explain(variable, *size, mpi_size, slurm);
    return std::nullopt;
  }
  const auto rank = number(environment, "PMIX_RANK");
  if (rank && *rank >= mpi_size) return explain("PMIX_RANK", *rank, mpi_size, slurm);
  return std::nullopt;
}

std::optional<std::string> missing_pmi(const Environment& environment, bool needs_pmix) {
  const auto tasks = number(environment, "SLURM_STEP_NUM_TASKS");
  if (!tasks || *tasks < 2 || has_any(environment, {"PMIX_", "OMPI_COMM_WORLD_"})) return std::nullopt;
  const bool has_pmi = has_any(environment, {"PMI_"});
  if (has_pmi && !needs_pmix) return std::nullopt;
  const auto plugin = environment.find("SLURM_MPI_TYPE");  // srun sets it, but not for --mpi=none
  return (plugin == environment.end() ? "srun" : "`srun --mpi=" + plugin->second + '`') + " started " +
         std::to_string(*tasks) + " processes (SLURM_STEP_NUM_TASKS=" + std::to_string(*tasks) + ") " +
         (has_pmi ? "with a PMI plugin that this MPI library cannot use" : "without a PMI plugin") +
         ", so MPI cannot connect them. Start them with `srun --mpi=pmix` (`srun --mpi=list` shows what this Slurm "
         "offers), or with the mpirun of the MPI library. To run one alone, in a shell that srun has started, put `env "
         "-u SLURM_STEP_NUM_TASKS` before the command";
}

std::optional<int> process_number(const Environment& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const auto rank = number(environment, variable)) return rank;
  }
  return is_from_torchrun(environment) ? number(environment, "RANK") : std::nullopt;
}

bool first_process(const Environment& environment) { return process_number(environment).value_or(0) == 0; }

bool all_on_this_host(const Environment& environment) {
  const auto are_equal = [&](const char* all, const char* here) {
    return number(environment, all) && number(environment, all) == number(environment, here);
  };
  return are_equal("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE") || are_equal("PMI_SIZE", "MPI_LOCALNRANKS");
}

std::istringstream stat_fields(const std::filesystem::path& folder) {
  std::string text;
  std::getline(std::ifstream(folder / "stat"), text);
  return std::istringstream(text.substr(std::min(text.size(), text.rfind(')') + 1)));
}

std::string stopped_neighbors() {
  std::string list;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !is_stopped_neighbor(entry.path())) continue;
    const auto rank = process_number(environment_of(entry.path()));
    list += (list.empty() ? "process " : ", process ") + pid + (rank ? " (rank " + std::to_string(*rank) + ")" : "") +
            " on this host is stopped";
  }
  return list;
}

}  // namespace lockstep
