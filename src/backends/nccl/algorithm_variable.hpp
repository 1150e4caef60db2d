// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backends/nccl.hpp"

namespace lockstep::backends {

/// The environment variable that selects NCCL's algorithm for all-reduces; NCCL has no other way to select it.
/// Every thread that makes a communicator holds the variable for that time: the first holder sets it, and the last one
/// restores it. No lock is kept meanwhile, because making a communicator waits for other processes.
class AlgorithmVariable {
 public:
  explicit AlgorithmVariable(std::string name = "NCCL_ALGO") : name_(std::move(name)) {}

  /// While this object lives, NCCL makes communicators with this algorithm. `automatic` leaves the variable as the user
  /// has set it; tree order uses none of NCCL's algorithms.
  class Hold {
   public:
    /// @throws Error{unsupported} if another of NCCL's algorithms is held, or a communicator of this process has it
    Hold(AlgorithmVariable& variable, NcclAlgorithm algorithm);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();
    /// Makes the process stay with this algorithm, because there is a communicator now.
    void keep();

   private:
    AlgorithmVariable* variable_;  // null: it holds nothing
  };

 private:
  void take(NcclAlgorithm algorithm);
  void let_go();

  const std::string name_;
  std::mutex mutex_;
  std::optional<NcclAlgorithm> chosen_;  // one of NCCL's algorithms, if any is in use
  bool is_kept_ = false;                 // chosen_ stays even if there is no holder
  int holders_ = 0;
  std::optional<std::string> before_;  // value of the variable before it was set
};

}  // namespace lockstep::backends
