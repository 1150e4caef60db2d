// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/group.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace emulated_gpu {
namespace {

/// What one communicator is to do for a group.
struct Launch {
  std::shared_ptr<Communicator> communicator;
  std::vector<Exchange> exchanges;
  Exchange messages;  // all sends and receives: at once, and after the others
  std::vector<cudaStream_t> streams;
};

struct Group {
  int depth = 0;
  ncclResult_t result = ncclSuccess;
  std::vector<Launch> launches;
  std::vector<std::pair<std::shared_ptr<Communicator>, std::function<ncclResult_t()>>> joins;
};
thread_local Group group;

Launch& launch_of(const std::shared_ptr<Communicator>& communicator) {
  const auto found = std::find_if(group.launches.begin(), group.launches.end(),
                                  [&](const Launch& launch) { return launch.communicator == communicator; });
  if (found != group.launches.end()) return *found;
  group.launches.push_back({communicator, {}, {}, {}});
  return group.launches.back();
}

/// The first stream gets the kernel, behind what all have, and all come behind it.
ncclResult_t queue(const Launch& launch) {
  const std::shared_ptr<Communicator> communicator = launch.communicator;
  const auto ordered = [&](cudaStream_t before, cudaStream_t after) {
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, before);
    cudaStreamWaitEvent(after, event, 0);
    cudaEventDestroy(event);
  };
  const cudaStream_t first = launch.streams.front();
  for (std::size_t i = 1; i < launch.streams.size(); ++i) ordered(launch.streams[i], first);
  const cudaError_t error = enqueue(first, cudaGraphNodeTypeKernel, [communicator, exchanges = launch.exchanges] {
    return run_exchanges(communicator, exchanges);
  });
  for (std::size_t i = 1; i < launch.streams.size(); ++i) ordered(first, launch.streams[i]);
  if (error != cudaSuccess) return communicator->fail(ncclUnhandledCudaError, cudaGetErrorString(error));
  return ncclSuccess;
}

ncclResult_t start(Launch launch) {
  if (!launch.messages.name.empty()) launch.exchanges.push_back(std::move(launch.messages));
  const std::shared_ptr<Communicator> communicator = launch.communicator;
  return communicator->run([launch = std::move(launch)] {
    cudaSetDevice(launch.communicator->device.number);
    for (const Exchange& exchange : launch.exchanges)
      if (!launch.communicator->connect(exchange.peers(launch.communicator->ranks))) return ncclRemoteError;
    return queue(launch);
  });
}

/// Of several communicators each by a thread of its own, since they wait for each other.
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
  std::vector<std::function<ncclResult_t()>> jobs;
  for (auto& [communicator, join] : all.joins)
    jobs.emplace_back([communicator = communicator, join = join] { return communicator->run(join); });
  for (Launch& launch : all.launches) jobs.emplace_back([launch] { return start(launch); });
  return jobs.empty() ? ncclSuccess : run_all(std::move(jobs));
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

ncclResult_t add_to_group(std::shared_ptr<Communicator> communicator, std::function<ncclResult_t()> join) {
  begin_group();
  group.joins.emplace_back(std::move(communicator), std::move(join));
  return end_group();
}

ncclResult_t refuse_in_group(ncclResult_t code) {
  if (group.depth > 0 && group.result == ncclSuccess) group.result = code;
  return code;
}

}  // namespace emulated_gpu
