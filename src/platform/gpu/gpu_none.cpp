// SPDX-License-Identifier: Apache-2.0
// Replaces gpu_cuda.cpp in builds without CUDA.
#include "lockstep/base/error.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported, "lockstep was built without CUDA: " LOCKSTEP_CUDA_MISSING);
}

}  // namespace

int gpu_count() { return 0; }
std::string why_no_gpu() { return "lockstep was built without CUDA: " LOCKSTEP_CUDA_MISSING; }
GpuProperties gpu_properties(int /*gpu*/) { refuse(); }
GpuVersions gpu_versions() { refuse(); }
GpuMemory gpu_memory() { refuse(); }
void select_gpu(int /*gpu*/) { refuse(); }

Stream::Stream(StreamPriority /*priority*/) { refuse(); }
Stream::~Stream() = default;
void Stream::synchronize() { refuse(); }

Event::Event() { refuse(); }
Event::~Event() = default;
void Event::record(Queue /*stream*/) { refuse(); }
bool Event::reached() const { refuse(); }
void Event::hold_back(Queue /*stream*/) const { refuse(); }

bool is_done(Queue /*stream*/) { refuse(); }
bool is_captured(Queue /*stream*/) { refuse(); }

void CapturedGraph::begin(Queue /*stream*/) { refuse(); }
CapturedGraph::CapturedGraph(Queue /*stream*/) { refuse(); }
CapturedGraph::~CapturedGraph() = default;
void CapturedGraph::launch(Queue /*stream*/) const { refuse(); }

void mark_not_finite(const ConstBuffer& /*values*/, std::uint32_t* /*mark*/, Queue /*stream*/) { refuse(); }

Allocation allocate_device(Bytes /*bytes*/) { refuse(); }
Allocation allocate_pinned(Bytes /*bytes*/) { refuse(); }
void copy_bytes(void* /*to*/, const void* /*from*/, Bytes /*bytes*/, Queue /*stream*/) { refuse(); }
void clear_bytes(void* /*memory*/, Bytes /*bytes*/, Queue /*stream*/) { refuse(); }
void clear_now(const Buffer& /*buffer*/) { refuse(); }

}  // namespace lockstep
