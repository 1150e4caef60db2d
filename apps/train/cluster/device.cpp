// SPDX-License-Identifier: Apache-2.0
#include "apps/train/cluster/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "ddp/on_gpus.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/cuda.hpp"
#include "platform/machine/launch.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "platform/mpi/phase.hpp"

namespace lockstep::train {
namespace {

/// Returns why the library for GPUs cannot compute the graph; empty if it can.
std::string why_not_this_graph(const nn::Graph& graph) {
  for (const nn::Node& node : graph.nodes()) {
    if (!ops::has_cuda_kernel(node.op))
      return "node '" + node.name + "' is '" + ops::text_of(node.op) + "', which has no kernel for GPUs";
  }
  return {};
}

/// Returns the choice of CPUs. @throws Error on every rank if GPUs were asked for
DeviceChoice on_cpus(const Options& options, std::string why) {
  if (options.device == "auto" && !options.precision.tf32) return {.why = std::move(why)};
  const std::string wish = options.device == "auto" ? "--precision tf32" : "--device " + options.device;
  throw Error(ErrorCode::unsupported,
              wish + ": the run cannot compute on GPUs: " + why + ". --device cpu computes on CPUs")
      .on_every_rank();
}

}  // namespace

void start_ranks(int argc, char** argv, const Options& options) {
  const std::size_t ranks = listed_gpus(options.device).size();
  if (ranks < 2 || process_number(read_environment())) return;
  std::string number = std::to_string(ranks);
  std::string launcher = "mpirun";
  std::string np = "-np";
  std::vector<char*> command{launcher.data(), np.data(), number.data()};
  command.insert(command.end(), argv, argv + argc);
  command.push_back(nullptr);
  execvp(launcher.c_str(), command.data());
  throw UsageError("--device " + options.device + " is for " + number +
                   " ranks, and mpirun, which would start them, is not found: put it in PATH, or start them yourself");
}

DeviceChoice choose_device(const World& world, const Options& options) {
  if (options.device == "cpu") return {};
  const Phase phase(world.group(), "choosing the device");
  std::vector<int> gpus = listed_gpus(options.device);
  std::string why = options.cpu_reason;
  if (why.empty()) why = ddp::why_no_gpus(world.group(), ops::why_no_cuda_ops(), !gpus.empty());
  if (why.empty()) return {.device = Device::cuda, .gpus = std::move(gpus)};
  return on_cpus(options, std::move(why));
}

DeviceChoice device_for(const nn::Graph& graph, const Options& options, const DeviceChoice& chosen) {
  std::string why = chosen.device == Device::cpu ? "" : why_not_this_graph(graph);
  return why.empty() ? chosen : on_cpus(options, std::move(why));
}

}  // namespace lockstep::train
