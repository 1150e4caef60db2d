// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <algorithm>
#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emulated_gpu/semantics/support.hpp"

namespace emulated_gpu::semantics {

/// @throws std::runtime_error unless the call has succeeded
inline void check(ncclResult_t result, const std::source_location& where = std::source_location::current()) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " +
                           ncclGetErrorString(result));
}

inline ncclUniqueId new_id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id));
  return id;
}

/// Returns the final result of the last call of a nonblocking communicator.
inline ncclResult_t outcome(ncclComm_t communicator) {
  ncclResult_t state = ncclInProgress;
  becomes_true([&] { return ncclCommGetAsyncError(communicator, &state) != ncclSuccess || state != ncclInProgress; });
  return state;
}

enum class Calls { block, do_not_block };

/// A communicator on the selected device.
class Communicator {
 public:
  Communicator(int ranks, const ncclUniqueId& id, int rank, Calls calls = Calls::block) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = calls == Calls::block ? 1 : 0;
    complete(ncclCommInitRankConfig(&communicator_, ranks, id, rank, &config));
  }
  explicit Communicator(ncclComm_t communicator) : communicator_(communicator) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    if (communicator_ != nullptr) ncclCommAbort(communicator_);
  }
  operator ncclComm_t() const { return communicator_; }  // NOLINT: as a handle, it goes into every call

  /// Waits until a call that has returned this result succeeds.
  void complete(ncclResult_t result, const std::source_location& where = std::source_location::current()) const {
    check(result == ncclInProgress ? outcome(communicator_) : result, where);
  }
  /// Closes the communicator as the User Guide says: ncclCommFinalize, then ncclCommDestroy. All ranks call it.
  void close() {
    complete(ncclCommFinalize(communicator_));
    check(ncclCommDestroy(std::exchange(communicator_, nullptr)));
  }
  ncclResult_t abort() { return ncclCommAbort(std::exchange(communicator_, nullptr)); }

 private:
  ncclComm_t communicator_ = nullptr;
};

/// Calls the function on a thread for each rank, which has selected the device of that number. @throws the exception of
/// one of them
template <typename Function>
void on_ranks(int ranks, const Function& function) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&errors, &function, rank] {
      try {
        check(cudaSetDevice(rank));
        function(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

inline int ranks_to_try() { return std::min(gpu_count(), 4); }

}  // namespace emulated_gpu::semantics
