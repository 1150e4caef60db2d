// SPDX-License-Identifier: Apache-2.0
// A library that claims to be cuDNN of the version in FAKE_CUDNN_VERSION, in the format of cudnnGetVersion. With
// FAKE_CUDNN_COMPLETE it has the functions that lockstep calls: heuristic A names the engines 7 and 8 for every graph,
// B 8 and 9, and the one to fall back to 10, each with the knob 2 at 5. An execution is written down, not done.
#include <cudnn_graph.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#ifdef FAKE_CUDNN_COMPLETE
namespace {

struct FakeDescriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::int64_t>> attributes;  // of 8 bytes each: the others are not needed
};

int made = 0;
int alive = 0;
int handles = 0;
std::string executed;

FakeDescriptor& fake(cudnnBackendDescriptor_t descriptor) { return *static_cast<FakeDescriptor*>(descriptor); }

/// The value of an attribute that is one number; −1: there is none.
std::int64_t number_of(FakeDescriptor& descriptor, cudnnBackendAttributeName_t name) {
  switch (name) {
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: return descriptor.attributes[name].front();
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE: return 5;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: return 4096;
    default: return -1;
  }
}

std::vector<std::int64_t> engines_of(std::int64_t mode) {
  if (mode == CUDNN_HEUR_MODE_A) return {7, 8};
  if (mode == CUDNN_HEUR_MODE_B) return {8, 9};
  return {10};
}

std::string text(const std::vector<std::int64_t>& values) {
  std::ostringstream out;
  for (const std::int64_t value : values) out << ' ' << std::hex << value;
  return out.str();
}

}  // namespace
#endif

extern "C" {

std::size_t cudnnGetVersion() {
  const char* version = std::getenv("FAKE_CUDNN_VERSION");
  return version != nullptr ? static_cast<std::size_t>(std::atoi(version)) : CUDNN_VERSION;
}

#ifdef FAKE_CUDNN_COMPLETE
struct cudnnContext {
  cudaStream_t stream = nullptr;
};

// For the test: the descriptors that were made until now, what is alive, the handles of it, and what was executed last.
int fake_cudnn_made() { return made; }
int fake_cudnn_alive() { return alive; }
int fake_cudnn_handles() { return handles; }
const char* fake_cudnn_executed() { return executed.c_str(); }

const char* cudnnGetErrorString(cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS ? "fine" : "a failure"; }
void cudnnGetLastErrorString(char* message, std::size_t size) { std::strncpy(message, "of the fake", size); }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (std::getenv("FAKE_CUDNN_NO_GPU") != nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new cudnnContext;
  ++alive;
  ++handles;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  --alive;
  --handles;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new FakeDescriptor{type, {}};
  ++made;
  ++alive;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &fake(descriptor);
  --alive;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t /*descriptor*/) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  if (type == CUDNN_TYPE_HEUR_MODE) {
    fake(descriptor).attributes[name] = {*static_cast<const cudnnBackendHeurMode_t*>(values)};
    return CUDNN_STATUS_SUCCESS;
  }
  if (type != CUDNN_TYPE_INT64 && type != CUDNN_TYPE_VOID_PTR && type != CUDNN_TYPE_HANDLE) {
    return CUDNN_STATUS_SUCCESS;
  }
  std::vector<std::int64_t>& kept = fake(descriptor).attributes[name];
  kept.resize(static_cast<std::size_t>(count));
  std::memcpy(kept.data(), values, kept.size() * sizeof(std::int64_t));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t most, std::int64_t* count,
                                       void* values) {
  const bool is_note = name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE || name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE;
  *count = is_note ? 0 : 1;
  if (most == 0 || is_note) return CUDNN_STATUS_SUCCESS;
  // Configurations and engines are told by the engine's number.
  constexpr auto engine = CUDNN_ATTR_ENGINE_GLOBAL_INDEX;
  auto* const parts = static_cast<cudnnBackendDescriptor_t*>(values);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const auto engines = engines_of(fake(descriptor).attributes[CUDNN_ATTR_ENGINEHEUR_MODE].front());
    *count = std::ssize(engines);
    for (std::size_t i = 0; i < engines.size(); ++i) fake(parts[i]).attributes[engine] = {engines[i]};
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    fake(parts[0]).attributes[engine] = fake(descriptor).attributes[engine];
    return CUDNN_STATUS_SUCCESS;
  }
  const std::int64_t number = number_of(fake(descriptor), name);
  if (number >= 0) std::memcpy(values, &number, sizeof(number));
  const cudnnBackendKnobType_t knob = CUDNN_KNOB_TYPE_TILE_SIZE;
  if (type == CUDNN_TYPE_KNOB_TYPE) std::memcpy(values, &knob, sizeof(knob));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  if (std::getenv("FAKE_CUDNN_FAILS") != nullptr) return CUDNN_STATUS_EXECUTION_FAILED;
  auto& given = fake(pack).attributes;
  const bool is_plan = fake(plan).type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  executed = (is_plan ? "plan" : "no plan") + std::string(" on stream ") +
             text({static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(handle->stream))}) + ", tensors" +
             text(given[CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS]) + " at" +
             text(given[CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS]) + ", workspace" +
             text(given[CUDNN_ATTR_VARIANT_PACK_WORKSPACE]);
  return CUDNN_STATUS_SUCCESS;
}
#endif

}  // extern "C"
