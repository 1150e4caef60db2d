// SPDX-License-Identifier: Apache-2.0
// lockstep-stacks prints what the ranks of a running job do. Exit codes: ExitCode in lockstep/mpi/world.hpp.
#include <chrono>
#include <fstream>

#include "apps/cli/help.hpp"
#include "apps/cli/run_app.hpp"
#include "mpi/print.hpp"
#include "platform/watchdog/process.hpp"
#include "platform/watchdog/side_channel.hpp"
#include "platform/watchdog/watchdog.hpp"

namespace lockstep::stacks {
namespace {

using namespace cli;

Program describe() {
  return {.name = "lockstep-stacks",
          .synopsis = "lockstep-stacks [JOB]",
          .about =
              "Prints what all ranks of a running job do: states of the processes, tasks, training steps, last "
              "operations, and the stacks of their threads, grouped, those of the fewest ranks first. The job goes on. "
              "Run it on a host of the job, as the user who started it.\n\nJOB is the process id of mpirun or of a "
              "rank, or Slurm's job id. It can be left out if the host has one job only.",
          .groups = {{"Options", {row("job", Whole{1, std::int64_t{1} << 40}, no_default, "the job, as JOB")}},
                     general_options()}};
}

/// A job with processes on this host.
struct Job {
  JobTable table;
  std::vector<int> processes;
};

std::vector<Job> jobs_of_this_host() {
  std::map<std::string, Job> jobs;
  for (const auto& [process, text] : ask_this_host(Purpose::job_table, std::chrono::milliseconds(1000))) {
    const auto table = job_from_json(text);
    if (!table) continue;
    jobs[text].table = *table;
    jobs[text].processes.push_back(process);
  }
  std::vector<Job> all;
  for (auto& [text, job] : jobs) all.push_back(std::move(job));
  return all;
}

bool is_slurm_job(int process, std::string_view id) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  for (std::string variable; std::getline(file, variable, '\0');)
    if (variable == "SLURM_JOB_ID=" + std::string(id)) return true;
  return false;
}

bool belongs_to(int process, std::string_view id) {
  if (is_slurm_job(process, id)) return true;
  for (int ancestor = process; ancestor > 1; ancestor = parent_of(ancestor))
    if (std::to_string(ancestor) == id) return true;
  return false;
}

std::string list_of(const std::vector<Job>& jobs) {
  std::string text;
  for (const Job& job : jobs) {
    text += "  " + std::to_string(job.processes.front()) + "  (" + std::to_string(job.table.hosts.size()) + " ranks, " +
            std::to_string(job.processes.size()) + " on this host)\n";
  }
  return text;
}

int fail(int code, const std::string& text) {
  print_error("lockstep-stacks", text);
  return code;
}

/// @return the exit code of the program
int show_stacks(int argc, char** argv) {
  const Program program = describe();
  std::vector<const char*> words(argv, argv + argc);
  if (argc == 2 && std::string_view(argv[1]).find_first_not_of("0123456789") == std::string_view::npos)
    words.insert(words.begin() + 1, "--job");
  OptionValues values(program);
  try {
    values = read_command_line(static_cast<int>(words.size()), words.data(), program);
  } catch (const UsageError& error) {
    return fail(exit_usage, error.what());
  }
  const std::string to_print = requested_text(values, program);
  if (!to_print.empty()) return print_once(program.name, to_print);
  std::vector<Job> jobs = jobs_of_this_host();
  const std::string wanted = values.has("job") ? std::to_string(values.get<std::int64_t>("job")) : "";
  std::erase_if(jobs, [&](const Job& job) {
    return !wanted.empty() &&
           std::ranges::none_of(job.processes, [&](int process) { return belongs_to(process, wanted); });
  });
  if (jobs.empty()) {
    return fail(exit_error, (wanted.empty() ? "no job" : "no job " + wanted) +
                                " of lockstep answers on this host: run this on a host of the job, as the "
                                "user who started it");
  }
  if (jobs.size() > 1) return fail(exit_usage, "this host has several jobs; name one:\n" + list_of(jobs));
  constexpr std::size_t history = 10;
  return print_once(program.name, explain_job(jobs.front().table, {}, history));
}

}  // namespace
}  // namespace lockstep::stacks

int main(int argc, char** argv) { return lockstep::stacks::show_stacks(argc, argv); }
