// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/group.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/nccl/call.hpp"

namespace emulated_gpu {
namespace {

/// The work of one communicator in a group.
struct Launch {
  std::shared_ptr<Communicator> communicator;
  std::vector<Exchange> exchanges;
  Exchange messages;  // all sends and receives: they run together, after the others
  std::vector<cudaStream_t> streams;
};

struct Group {
  int depth = 0;
  ncclResult_t result = ncclSuccess;
  std::vector<Launch> launches;
  std::vector<std::pair<std::shared_ptr<Communicator>, std::function<ncclResult_t()>>> others;

  /// Returns whether some communicators block and others do not, which NCCL refuses in a group.
  [[nodiscard]] bool is_mixed() const {
    int blocking = 0;
    for (const Launch& launch : launches) blocking += launch.communicator->blocking ? 1 : 0;
    for (const auto& [communicator, job] : others) blocking += communicator->blocking ? 1 : 0;
    return blocking > 0 && blocking < static_cast<int>(launches.size() + others.size());
  }
  /// Returns the error message of the first communicator that has one.
  [[nodiscard]] std::string last_words() const {
    std::string words;
    for (const auto& [communicator, job] : others)
      if (words.empty()) words = communicator->last_error();
    for (const Launch& launch : launches)
      if (words.empty()) words = launch.communicator->last_error();
    return words;
  }
};
thread_local Group group;

Launch& launch_of(const std::shared_ptr<Communicator>& communicator) {
  const auto found = std::find_if(group.launches.begin(), group.launches.end(),
                                  [&](const Launch& launch) { return launch.communicator == communicator; });
  if (found != group.launches.end()) return *found;
  group.launches.push_back({communicator, {}, {}, {}});
  return group.launches.back();
}

/// Selects another GPU for the calling thread during the scope, so that a null stream is that of the communicator's
/// GPU.
class OnGpu {
 public:
  explicit OnGpu(int gpu) : before_(std::exchange(current_gpu(), gpu)) {}
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() { current_gpu() = before_; }

 private:
  int before_;
};

/// Orders later work on `after` after the current work on `before`.
cudaError_t order(cudaStream_t before, cudaStream_t after) {
  cudaEvent_t event = nullptr;
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  error = cudaEventRecord(event, before);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(after, event, 0);
  cudaEventDestroy(event);
  return error;
}

std::vector<const void*> memory_of(const std::vector<Exchange>& exchanges) {
  std::vector<const void*> all;
  for (const Exchange& exchange : exchanges) {
    for (const Outgoing& out : exchange.out) all.push_back(out.from);
    for (const Incoming& in : exchange.in) all.push_back(in.to);
    if (exchange.sum) all.insert(all.end(), {exchange.sum->own, exchange.sum->to});
  }
  return all;
}

/// Puts the kernel on the first stream, after the work of all streams, and orders all streams after it.
cudaError_t put_on_streams(const Launch& launch) {
  const cudaStream_t first = launch.streams.front();
  cudaError_t error = cudaSuccess;
  for (std::size_t i = 1; i < launch.streams.size() && error == cudaSuccess; ++i)
    error = order(launch.streams[i], first);
  if (error == cudaSuccess) {
    error = enqueue(
        first, cudaGraphNodeTypeKernel,
        [communicator = launch.communicator, exchanges = launch.exchanges, held = launch.communicator->hold()] {
          return run_exchanges(communicator, exchanges);
        },
        memory_of(launch.exchanges));
  }
  for (std::size_t i = 1; i < launch.streams.size() && error == cudaSuccess; ++i)
    error = order(first, launch.streams[i]);
  return error;
}

ncclResult_t queue(const Launch& launch) {
  const OnGpu on_gpu(launch.communicator->device.number);
  const cudaError_t error = put_on_streams(launch);
  return error == cudaSuccess ? ncclSuccess
                              : launch.communicator->fail(ncclUnhandledCudaError, cudaGetErrorString(error));
}

ncclResult_t start(Launch launch) {
  if (!launch.messages.name.empty()) launch.exchanges.push_back(std::move(launch.messages));
  const std::shared_ptr<Communicator> communicator = launch.communicator;
  return communicator->run([launch = std::move(launch)] {
    for (const Exchange& exchange : launch.exchanges)
      if (!launch.communicator->connect(exchange.peers(launch.communicator->ranks))) return ncclRemoteError;
    return queue(launch);
  });
}

/// Runs the jobs of several communicators on a thread each, because they wait for each other.
ncclResult_t run_all(std::vector<std::function<ncclResult_t()>> jobs) {
  if (jobs.size() == 1) return jobs.front()();
  std::vector<ncclResult_t> results(jobs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i) threads.emplace_back([&, i] { results[i] = jobs[i](); });
  for (std::thread& thread : threads) thread.join();
  ncclResult_t all = ncclSuccess;
  for (const ncclResult_t result : results)
    if (all == ncclSuccess || all == ncclInProgress) all = result == ncclSuccess ? all : result;
  return all;
}

}  // namespace

ncclResult_t begin_group() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t end_group() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  Group all = std::exchange(group, {});
  if (all.result != ncclSuccess) return all.result;
  if (all.is_mixed()) return refuse(ncclInvalidArgument, "a group of communicators of which some block, some do not");
  std::vector<std::function<ncclResult_t()>> jobs;
  for (auto& [communicator, job] : all.others)
    jobs.emplace_back([communicator = communicator, job = job] { return communicator->run(job); });
  for (Launch& launch : all.launches) jobs.emplace_back([launch] { return start(launch); });
  if (jobs.empty()) return ncclSuccess;
  const ncclResult_t result = run_all(std::move(jobs));
  if (result != ncclSuccess && result != ncclInProgress) refuse(result, all.last_words());
  return result;
}

ncclResult_t add_to_group(ncclComm_t handle, Exchange exchange, bool is_message, cudaStream_t stream) {
  begin_group();
  Launch& launch = launch_of(handle->communicator);
  if (std::find(launch.streams.begin(), launch.streams.end(), stream) == launch.streams.end())
    launch.streams.push_back(stream);
  if (is_message) {
    launch.messages.name = exchange.name;
    launch.messages.out.insert(launch.messages.out.end(), exchange.out.begin(), exchange.out.end());
    launch.messages.in.insert(launch.messages.in.end(), exchange.in.begin(), exchange.in.end());
  } else {
    launch.exchanges.push_back(std::move(exchange));
  }
  return end_group();
}

ncclResult_t add_to_group(std::shared_ptr<Communicator> communicator, std::function<ncclResult_t()> job) {
  begin_group();
  group.others.emplace_back(std::move(communicator), std::move(job));
  return end_group();
}

ncclResult_t refuse_in_group(ncclResult_t code) {
  if (group.depth > 0 && group.result == ncclSuccess) group.result = code;
  return code;
}

}  // namespace emulated_gpu
