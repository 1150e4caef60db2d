// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backends/nccl.hpp"

namespace lockstep::backends {

/// The variable by which NCCL is told which of its algorithms all-reduces take; it has no other way to be told. Whoever
/// makes a communicator holds it for so long, from any thread: the first one sets it, the last one puts it back as it
/// was. No lock is kept meanwhile, for who makes a communicator waits for other processes.
class AlgorithmVariable {
 public:
  explicit AlgorithmVariable(std::string name = "NCCL_ALGO") : name_(std::move(name)) {}

  /// While it lives, NCCL makes communicators with this algorithm. `automatic` leaves the variable as the user has it;
  /// tree order asks nothing of NCCL.
  class Hold {
   public:
    /// @throws Error{unsupported} if another one of NCCL's own is held, or a communicator of this process has it
    Hold(AlgorithmVariable& variable, NcclAlgorithm algorithm);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();
    /// There is a communicator now: the process stays with this algorithm.
    void keep();

   private:
    AlgorithmVariable* variable_;  // null: holds nothing
  };

 private:
  void take(NcclAlgorithm algorithm);
  void let_go();

  const std::string name_;
  std::mutex mutex_;
  std::optional<NcclAlgorithm> chosen_;  // one of NCCL's own
  bool is_kept_ = false;                 // also when nobody holds it
  int holders_ = 0;
  std::optional<std::string> before_;  // its value before it was set
};

}  // namespace lockstep::backends
