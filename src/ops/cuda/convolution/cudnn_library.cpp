// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/convolution/cudnn_library.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {
namespace {

constexpr const char* cudnn_variable = "LOCKSTEP_CUDNN_LIBRARY";
constexpr std::size_t oldest_cudnn = 90800;  // plans by device properties, and graphs of operations without a handle

std::string version_text(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string soname() { return "libcudnn.so." + std::to_string(CUDNN_MAJOR); }

[[noreturn]] void refuse_cudnn(const std::string& why) {
  throw Error(ErrorCode::unsupported, why + ". Install cuDNN " + std::to_string(CUDNN_MAJOR) + ", version " +
                                          version_text(oldest_cudnn) + " or newer (PyPI package nvidia-cudnn-cu" +
                                          std::to_string(CUDART_VERSION / 1000) + "), and set " + cudnn_variable +
                                          " to its file " + soname() + " where the loader does not find it");
}

void* open_cudnn(const std::string& file) {
  void* handle = dlopen(file.empty() ? soname().c_str() : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    refuse_cudnn("cuDNN cannot be loaded" + (file.empty() ? "" : std::string(" from ") + cudnn_variable + "=" + file) +
                 ": " + (why != nullptr ? why : soname()));
  }
  return handle;
}

template <typename Function>
void find_function(Function& function, void* handle, const char* name, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
}

/// Keeps NVRTC loaded, if it is there. cuDNN compiles with it, and opens and closes it for every engine that it is
/// asked about; loading this large library took more than half of the time in which plans are made.
void keep_nvrtc_loaded() { (void)dlopen(("libnvrtc.so." + std::to_string(CUDART_VERSION / 1000)).c_str(), RTLD_LAZY); }

}  // namespace

CudnnLibrary load_cudnn(const std::string& file) {
  void* const handle = open_cudnn(file);
  CudnnLibrary library;
  std::string missing;
  decltype(&cudnnGetVersion) get_version = nullptr;
  find_function(get_version, handle, "cudnnGetVersion", missing);
  if (get_version == nullptr) refuse_cudnn(file + " is no cuDNN: it has no function cudnnGetVersion");
  Dl_info info{};
  const bool is_known = dladdr(reinterpret_cast<void*>(get_version), &info) != 0 && info.dli_fname != nullptr;
  library.file = is_known ? info.dli_fname : "an unknown file";
  const std::size_t version = get_version();
  library.number = version;
  library.version = version_text(version);
#define LOCKSTEP_CUDNN_FIND(name) find_function(library.name, handle, "cudnn" #name, missing);
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_CUDNN_FIND)
#undef LOCKSTEP_CUDNN_FIND
  const std::string which = "cuDNN " + library.version + " (" + library.file + ") ";
  if (version / 10000 != CUDNN_MAJOR) {
    refuse_cudnn(which + "cannot be used: lockstep was built with the header of cuDNN " + version_text(CUDNN_VERSION));
  }
  if (version < oldest_cudnn) refuse_cudnn(which + "is too old");
  if (!missing.empty()) refuse_cudnn(which + "lacks " + missing + ", which lockstep calls");
  keep_nvrtc_loaded();
  return library;
}

const CudnnLibrary& cudnn() {
  // It is never destroyed, because plans may be freed until the process ends.
  static const CudnnLibrary& library = *[] {
    const char* file = std::getenv(cudnn_variable);
    return new CudnnLibrary(load_cudnn(file != nullptr ? file : ""));
  }();
  return library;
}

std::string text_of(cudnnStatus_t status) {
  std::array<char, 512> last{};
  cudnn().GetLastErrorString(last.data(), last.size());
  const std::string name = cudnn().GetErrorString(status);
  return last.front() == '\0' ? name : name + ": " + last.data();
}

std::string why_no_convolutions() {
  try {
    (void)cudnn();
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

}  // namespace lockstep::ops::cuda
