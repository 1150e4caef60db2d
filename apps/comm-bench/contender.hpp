// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "lockstep/collectives/choice/selection.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep::comm_bench {

/// One way to run a collective.
class Contender {
 public:
  explicit Contender(std::string name) : name_(std::move(name)) {}
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns when the collective is done on this rank. @throws Error as its back end does
  virtual void run(const Collective& collective) = 0;
  /// Memory that it is fastest with; empty where any is as good. @throws as Communicator::allocate
  virtual Allocation allocate(Bytes /*bytes*/) { return {}; }
  /// Collective. @throws Error{transport}
  virtual void close() = 0;

 private:
  std::string name_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// The contender that chooses among lockstep's own algorithms.
inline constexpr std::string_view automatic = "auto";

/// The ways there are to run an operation: lockstep's own, "auto" first, then the MPI library's blocking call ("mpi")
/// and its nonblocking one ("mpi-native").
std::span<const std::string_view> contender_names(CollectiveKind op);
inline bool is_of_the_mpi_library(std::string_view contender) {
  return contender == "mpi" || contender == "mpi-native";
}

/// lockstep's own algorithms as the selection chooses them. Collective. @throws as make_contenders
std::unique_ptr<Contender> make_plan_contender(std::string name, const World& world,
                                               const collectives::Selection& selection, const Options& options);

/// Those that the options name, in that order. Each makes its own progress, so that none pays for polling the others.
/// Collective.
/// @throws Error{transport}; Error{invalid_argument} for a segment or number in flight out of range; as selection_for
Contenders make_contenders(const World& world, const Options& options);

}  // namespace lockstep::comm_bench
