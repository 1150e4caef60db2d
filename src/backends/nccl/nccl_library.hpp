// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {

/// A version of NCCL. Versions compare in the order of their releases.
struct NcclVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;

  /// Reads a version as ncclGetVersion returns it: 2.8.4 is 2804, and from 2.9.0 on 2.28.9 is 22809.
  static NcclVersion of_code(int code);
  friend auto operator<=>(const NcclVersion&, const NcclVersion&) = default;
};
std::string text(NcclVersion version);  ///< "2.28.9"

/// The functions that lockstep calls beside ncclGetVersion, without their prefix "nccl".
// clang-format off
#define LOCKSTEP_NCCL_FUNCTIONS(use)                                                   \
  use(AllGather) use(AllReduce) use(Broadcast) use(CommAbort) use(CommDestroy)         \
  use(CommFinalize) use(CommGetAsyncError) use(CommInitRankConfig) use(GetErrorString) \
  use(GetLastError) use(GetUniqueId) use(GroupEnd) use(GroupStart) use(MemAlloc)       \
  use(MemFree) use(Recv) use(Reduce) use(ReduceScatter) use(Send)
// clang-format on

/// What all-reduces need to reach the memory of other ranks directly. NCCL has it from 2.27.3 on, and headers may be
/// older, so that the functions are declared here.
struct NcclWindows {
  using Window = void*;
  static constexpr int symmetric = 1;  ///< NCCL_WIN_COLL_SYMMETRIC
  ncclResult_t (*register_window)(ncclComm_t communicator, void* memory, std::size_t bytes, Window* window,
                                  int flags) = nullptr;
  ncclResult_t (*deregister_window)(ncclComm_t communicator, Window window) = nullptr;
  [[nodiscard]] bool exist() const { return register_window != nullptr && deregister_window != nullptr; }
};

/// How one all-reduce is told its algorithm: ncclCollConfig_t of NCCL 2.31.2. Later versions read as much as `size`
/// says.
struct NcclCallConfig {
  std::size_t size = sizeof(NcclCallConfig);
  unsigned magic = 0xcafebeef;  // NCCL_API_MAGIC
  unsigned version = 23102;
  void* extensions = nullptr;
  int least_blocks = NCCL_CONFIG_UNDEF_INT;
  int most_blocks = NCCL_CONFIG_UNDEF_INT;
  int nvls_blocks = NCCL_CONFIG_UNDEF_INT;
  int cluster_size = NCCL_CONFIG_UNDEF_INT;
  const char* algorithms = nullptr;  ///< beginnings of the names of NCCL's kernels, with commas between them
  int is_forced = 1;                 ///< NCCL refuses the call rather than choosing another algorithm
  int block_policy = NCCL_CONFIG_UNDEF_INT;
  std::uint64_t tag = 0;  ///< for profilers
};
static_assert(sizeof(NcclCallConfig) == 64);

/// A loaded NCCL. lockstep is compiled with NCCL's header and is not linked with its library, so that a program can
/// bring the library that it needs itself, and a program that uses no GPU needs none. The library stays loaded.
struct NcclLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares a member
#define LOCKSTEP_NCCL_POINTER(name) decltype(&::nccl##name) name = nullptr;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_NCCL_POINTER)
#undef LOCKSTEP_NCCL_POINTER
  NcclWindows windows;
  /// ncclAllReduceConfig; null before version 2.31.2.
  ncclResult_t (*all_reduce_by)(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t communicator, cudaStream_t stream, const NcclCallConfig* config) = nullptr;
  NcclVersion version;
  std::string file;  ///< the file that the functions come from
};

/// Finds NCCL: in `file` or, if that is empty, first among the libraries that the process has loaded, then as
/// libnccl.so.2 in the loader's search path. Loads it if necessary.
/// @throws Error{unsupported} that says what was tried, what the library lacks, and what to install or set
NcclLibrary load_nccl(const std::string& file);

/// Returns the NCCL of this process. The first call loads it, from the file that the variable LOCKSTEP_NCCL_LIBRARY
/// names if it is set; a call after a failed one tries again. @throws as load_nccl
const NcclLibrary& nccl();

/// Returns a known fault of a version that lockstep can use, and what to do about it; empty if none is known.
std::string known_fault(NcclVersion version);

/// @param communicator  the one concerned, for NCCL's last error message about it, or nullptr
/// @throws Error{invalid_argument | device | transport} with NCCL's text for `code` and the call that returned it
[[noreturn]] void throw_nccl_error(ncclResult_t code, std::string_view call, ncclComm_t communicator,
                                   SourceLocation location = SourceLocation::current());

/// @throws Error{unsupported} for a type that NCCL does not have
ncclDataType_t nccl_type(DType dtype);

/// A group of calls that NCCL runs as one.
class CallGroup {
 public:
  explicit CallGroup(ncclComm_t communicator);
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  /// Closes the group if it is open, because an open one would take in every later call of this thread.
  ~CallGroup();

  /// Records what a call returned. @param call  its name, for messages
  void add(ncclResult_t result, const char* call);
  /// Returns whether NCCL has accepted all calls so far.
  [[nodiscard]] bool is_good() const { return result_ == ncclSuccess || result_ == ncclInProgress; }
  /// Submits the group to NCCL. @throws the error of a call that NCCL refused
  void close();

 private:
  ncclComm_t communicator_;
  ncclResult_t result_ = ncclSuccess;
  const char* refused_ = "";  // the call that returned result_
  bool open_ = true;
};

/// Sends and receives that NCCL runs as one. Between the same two ranks they match in the order of the calls.
class MessageGroup {
 public:
  MessageGroup(ncclComm_t communicator, cudaStream_t stream)
      : group_(communicator), communicator_(communicator), stream_(stream) {}

  /// Sends to a peer. A message without elements is omitted on both sides, and so is every message after a call that
  /// NCCL refused.
  void send(const ConstBuffer& data, int peer);
  void receive(const Buffer& data, int peer);
  /// Submits the group, as CallGroup::close.
  void close() { group_.close(); }

 private:
  [[nodiscard]] bool takes(Count count) const;

  CallGroup group_;
  ncclComm_t communicator_;
  cudaStream_t stream_;
};

}  // namespace lockstep::backends

/// LOCKSTEP_NCCL_CHECK(Send(…), communicator) calls ncclSend and throws unless it succeeds or, on a non-blocking
/// communicator, goes on in the background.
#define LOCKSTEP_NCCL_CHECK(call, communicator)                                               \
  do {                                                                                        \
    if (const ncclResult_t lockstep_nccl_code = ::lockstep::backends::nccl().call;            \
        lockstep_nccl_code != ncclSuccess && lockstep_nccl_code != ncclInProgress)            \
      ::lockstep::backends::throw_nccl_error(lockstep_nccl_code, "nccl" #call, communicator); \
  } while (false)
