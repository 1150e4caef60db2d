// SPDX-License-Identifier: Apache-2.0
#include "apps/train/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ddp/on_gpus.hpp"
#include "lockstep/backends/compressed.hpp"
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

}  // namespace

std::vector<int> listed_gpus(const std::string& device) {
  std::vector<int> gpus;
  const char* at = device.data();
  const char* end = at + device.size();
  while (at != end) {
    int gpu = 0;
    const auto [next, failure] = std::from_chars(at, end, gpu);
    if (failure != std::errc() || gpu < 0 || (next != end && (*next != ',' || next + 1 == end))) return {};
    gpus.push_back(gpu);
    at = next == end ? end : next + 1;
  }
  return gpus;
}

std::string why_not_on_gpus(const OptionValues& given, const Options& o) {
  if (given.has("ops")) return "--ops chooses a library for CPUs";
  if (o.precision.reals == DType::float64) return "--precision float64 is for CPUs";
  if (o.trainer.step.shards > 0) return "--shards is for CPUs";
  if (o.trainer.zero) return "--zero is for CPUs";
  if (o.min_ranks > 0) return "--min-ranks is for CPUs";
  if (backends::parse_compression(o.compress)) return "--compress is for CPUs";
  return {};
}

std::string conflict_of_device(const OptionValues& given, const Options& o) {
  if (o.device == "auto") return {};
  if (o.device == "cpu") {
    return o.precision.tf32 ? "--precision tf32 is for GPUs: choose float32, or --device cuda" : "";
  }
  if (o.device != "cuda" && listed_gpus(o.device).empty())
    return "--device " + o.device + ": give auto, cpu, cuda, or the indices of GPUs, such as 0 or 0,1";
  const std::string why = why_not_on_gpus(given, o);
  return why.empty() ? why : why + ", and has no meaning with --device " + o.device + ": leave one of the two out";
}

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

namespace {

/// Returns the choice of CPUs. @throws Error on every rank if GPUs were asked for
DeviceChoice on_cpus(const Options& options, std::string why) {
  if (options.device == "auto" && !options.precision.tf32) return {.why = std::move(why)};
  const std::string wish = options.device == "auto" ? "--precision tf32" : "--device " + options.device;
  throw Error(ErrorCode::unsupported,
              wish + ": the run cannot compute on GPUs: " + why + ". --device cpu computes on CPUs")
      .on_every_rank();
}

}  // namespace

DeviceChoice choose_device(const World& world, const Options& options) {
  if (options.device == "cpu") return {};
  const Phase phase(world.group(), "choosing the device");
  std::vector<int> gpus = listed_gpus(options.device);
  std::string why = options.cpu_reason;
  if (why.empty()) why = ddp::why_no_gpus(world.group(), ops::why_no_cuda_ops(), !gpus.empty());
  if (why.empty()) return {.device = Device::cuda, .gpus = std::move(gpus)};
  return on_cpus(options, std::move(why));
}

void require_kernels(const nn::Graph& graph, const Options& options, DeviceChoice& device) {
  if (device.device == Device::cpu) return;
  if (std::string why = why_not_this_graph(graph); !why.empty()) device = on_cpus(options, std::move(why));
}

}  // namespace lockstep::train
