// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::comm_bench {

/// One way to run a collective.
class Contender {
 public:
  explicit Contender(std::string name) : name_(std::move(name)) {}
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Runs the collective and returns when it is complete on this rank. @throws Error as its back end does
  virtual void run(const Collective& collective) = 0;
  /// Allocates the memory with which it is fastest; empty if ordinary memory is as good. @throws as
  /// Communicator::allocate
  virtual Allocation allocate(Bytes /*bytes*/) { return {}; }
  /// Closes its communicator. Collective. @throws Error{transport}
  virtual void close() = 0;

 private:
  std::string name_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// The contender that chooses among lockstep's own algorithms.
inline constexpr std::string_view automatic = "auto";

/// Returns whether the MPI library runs it: "mpi" is its blocking call, "mpi-native" its nonblocking one.
inline bool is_of_the_mpi_library(std::string_view contender) {
  return contender == "mpi" || contender == "mpi-native";
}

}  // namespace lockstep::comm_bench
