// SPDX-License-Identifier: Apache-2.0
// mapped_rank [--show LIST:LIST:…] [--bind CPU:CPU:…]   runs under mpiexec. It makes groups on GPUs and prints a line
// with the GPU they use, such as "rank 1: GPU 4 0000:9d:00.0 GPU-9d000000-…", or why there is no group. Each list is
// CUDA_VISIBLE_DEVICES of the local rank at its position, each number the processor that it runs on.
#include <cuda_runtime.h>
#include <sched.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/gpu/gpu.hpp"

namespace {

using namespace lockstep;

/// Returns the rank in the job. The rank on the host is not used, because Open MPI 5 may number in another order there.
int world_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* value = std::getenv(variable)) return std::atoi(value);
  throw std::runtime_error("the launcher does not say which rank this is");
}

std::string entry_of(const std::string& list, int index) {
  std::istringstream text(list);
  std::string entry;
  for (int i = 0; i <= index; ++i)
    if (!std::getline(text, entry, ':')) throw std::runtime_error("nothing for rank " + std::to_string(index));
  return entry;
}

void bind_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("cannot be bound");
}

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

int selected() {
  int gpu = -1;
  if (cudaGetDevice(&gpu) != cudaSuccess) throw std::runtime_error("no GPU is selected");
  return gpu;
}

void add_up(ProcessGroup& group) {
  const Allocation memory = group.allocate({1024});
  const Buffer values = memory.as(DType::float32);
  group.communicator().all_reduce(values, values, ReduceOp::sum).wait();
}

/// @return the GPU of a group, of its subgroups, and of its further communicators
int gpu_of_groups(const World& world) {
  const WaitPolicy wait{.spins_before_yield = 0};
  ProcessGroup on_host(world, {.wait = wait});
  require(!on_host.gpu(), "a group on cpu has a GPU");
  on_host.close();
  ProcessGroup group(world, {.device = Device::cuda, .wait = wait});
  require(group.gpu().has_value() && selected() == *group.gpu(), "the group's GPU is not selected");
  add_up(group);
  auto part = group.split(group.rank().value % 2, -group.rank().value);
  require(part->gpu() == group.gpu(), "a part of the group has another GPU");
  require(selected() == *group.gpu(), "the part's GPU is not selected");
  add_up(*part);
  auto host_part = group.split(0, 0, {.wait = wait});
  require(!host_part->gpu(), "a part on cpu has a GPU");
  host_part->close();
  part->close();
  const int gpu = *group.gpu();
  group.close();
  return gpu;
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Prints a line in one piece, because other ranks print as well.
void say(const World& world, const std::string& words) {
  const std::string line = "rank " + std::to_string(world.rank().value) + ": " + words + '\n';
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::exit(EXIT_FAILURE);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string entry = entry_of(argv[i + 1], world_rank());
    if (argv[i] == std::string_view("--show")) setenv("CUDA_VISIBLE_DEVICES", entry.c_str(), 1);
    if (argv[i] == std::string_view("--bind")) bind_to(std::stoi(entry));
  }
  World world;
  try {
    const int gpu = gpu_of_groups(world);
    const GpuProperties properties = gpu_properties(gpu);
    say(world, "GPU " + std::to_string(gpu) + ' ' + lower_case(properties.pci_bus_id) + ' ' + properties.uuid);
  } catch (const Error& error) {
    say(world, std::string(error.is_on_every_rank() ? "all refused: " : "refused: ") + error.what());
  }
  world.close();
  return EXIT_SUCCESS;
}
