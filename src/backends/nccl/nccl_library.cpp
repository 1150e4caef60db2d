// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_library.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace lockstep::backends {
namespace {

constexpr const char* variable = "LOCKSTEP_NCCL_LIBRARY";
constexpr NcclVersion of_header{NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH};
constexpr NcclVersion oldest{2, 19, 0};  // the first version with ncclMemAlloc

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::unsupported, why + ". Install NCCL " + std::to_string(NCCL_MAJOR) + ", version " +
                                          text(oldest) +
                                          " or newer (Debian package libnccl2, PyPI package nvidia-nccl-cu" +
                                          std::to_string(CUDART_VERSION / 1000) + "), and set " + variable +
                                          " to its file libnccl.so.2 where the loader does not find it");
}

void* open(const std::string& file, const std::string& asked_by) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    refuse("NCCL cannot be loaded" + asked_by + ": " + (why != nullptr ? why : file));
  }
  return handle;
}

/// Returns the handle for dlsym. The loader also finds a loaded libnccl.so.2 by name if its symbols are not global.
void* handle_of(const std::string& file) {
  if (!file.empty()) return open(file, std::string(" from ") + variable + "=" + file);
  if (dlsym(RTLD_DEFAULT, "ncclGetVersion") != nullptr) return RTLD_DEFAULT;
  return open("libnccl.so.2", "");
}

std::string file_of(void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "an unknown file";
}

template <typename Function>
void find(Function& function, void* handle, const char* name, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
}

void check(const NcclLibrary& library, const std::string& missing) {
  const std::string which = "NCCL " + text(library.version) + " (" + library.file + ") ";
  const std::string lacks = missing.empty() ? "" : "lacks " + missing + ", which lockstep calls";
  if (library.version.major != of_header.major)
    refuse(which + "cannot be used: lockstep was built with the header of NCCL " + text(of_header));
  if (library.version < oldest) refuse(which + "is too old" + (lacks.empty() ? "" : ": it " + lacks));
  if (!lacks.empty()) refuse(which + lacks);
}

ErrorCode category(ncclResult_t code) {
  switch (code) {
    case ncclUnhandledCudaError: return ErrorCode::device;
    case ncclInvalidArgument:
    case ncclInvalidUsage: return ErrorCode::invalid_argument;
    default: return ErrorCode::transport;
  }
}

}  // namespace

NcclVersion NcclVersion::of_code(int code) {
  const int major_unit = code < 10000 ? 1000 : 10000;
  return {code / major_unit, code % major_unit / 100, code % 100};
}

std::string text(NcclVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
}

NcclLibrary load_nccl(const std::string& file) {
  void* const handle = handle_of(file);
  NcclLibrary library;
  std::string missing;
  decltype(&ncclGetVersion) get_version = nullptr;
  find(get_version, handle, "ncclGetVersion", missing);
  if (get_version == nullptr) refuse(file + " is no NCCL: it has no function ncclGetVersion");
  library.file = file_of(reinterpret_cast<void*>(get_version));
#define LOCKSTEP_NCCL_FIND(name) find(library.name, handle, "nccl" #name, missing);
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_NCCL_FIND)
#undef LOCKSTEP_NCCL_FIND
  int code = 0;
  if (const ncclResult_t result = get_version(&code); result != ncclSuccess) {
    refuse("NCCL (" + library.file + ") does not tell its version" +
           (library.GetErrorString == nullptr ? "" : std::string(": ") + library.GetErrorString(result)));
  }
  library.version = NcclVersion::of_code(code);
  check(library, missing);
  std::string without;
  find(library.windows.register_window, handle, "ncclCommWindowRegister", without);
  find(library.windows.deregister_window, handle, "ncclCommWindowDeregister", without);
  constexpr NcclVersion oldest_with_algorithms{2, 31, 2};
  if (library.version >= oldest_with_algorithms) find(library.all_reduce_by, handle, "ncclAllReduceConfig", without);
  return library;
}

const NcclLibrary& nccl() {
  // It is never destroyed, because memory may be freed, and communicators aborted, until the process ends.
  static const NcclLibrary& library = *[] {
    const char* file = std::getenv(variable);
    return new NcclLibrary(load_nccl(file != nullptr ? file : ""));
  }();
  return library;
}

std::string known_fault(NcclVersion version) {
  if (version < NcclVersion{2, 28, 3} || version > NcclVersion{2, 28, 8}) return {};
  return "NCCL " + text(version) +
         " has known faults, for example when a process makes communicators again after it closed all: use 2.28.9 or "
         "newer";
}

void throw_nccl_error(ncclResult_t code, std::string_view call, ncclComm_t communicator, SourceLocation location) {
  std::string message = std::string(nccl().GetErrorString(code)) + " from " + std::string(call);
  if (const char* last_error = nccl().GetLastError(communicator); last_error != nullptr && *last_error != '\0') {
    message += ": " + std::string(last_error);
  }
  throw Error(category(code), message, {}, location);
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return ncclFloat32;
    case DType::float64: return ncclFloat64;
    case DType::int32: return ncclInt32;
    case DType::int64: return ncclInt64;
    case DType::uint8: return ncclUint8;
    case DType::float16: return ncclFloat16;
    case DType::bfloat16: return ncclBfloat16;
    default: break;
  }
  throw Error(ErrorCode::unsupported, "NCCL has no type for " + std::string(name(dtype)));
}

CallGroup::CallGroup(ncclComm_t communicator) : communicator_(communicator) {
  LOCKSTEP_NCCL_CHECK(GroupStart(), communicator);
}

CallGroup::~CallGroup() {
  if (open_) nccl().GroupEnd();
}

void CallGroup::add(ncclResult_t result, const char* call) {
  if (!is_good()) return;
  result_ = result;
  refused_ = call;
}

void CallGroup::close() {
  open_ = false;
  const ncclResult_t closed = nccl().GroupEnd();
  if (!is_good()) throw_nccl_error(result_, refused_, communicator_);
  if (closed != ncclSuccess && closed != ncclInProgress) throw_nccl_error(closed, "ncclGroupEnd", communicator_);
}

bool MessageGroup::takes(Count count) const { return count > 0 && group_.is_good(); }

void MessageGroup::send(const ConstBuffer& data, int peer) {
  if (!takes(data.count)) return;
  group_.add(nccl().Send(data.data, static_cast<std::size_t>(data.count.value), nccl_type(data.dtype), peer,
                         communicator_, stream_),
             "ncclSend");
}

void MessageGroup::receive(const Buffer& data, int peer) {
  if (!takes(data.count)) return;
  group_.add(nccl().Recv(data.data, static_cast<std::size_t>(data.count.value), nccl_type(data.dtype), peer,
                         communicator_, stream_),
             "ncclRecv");
}

}  // namespace lockstep::backends
