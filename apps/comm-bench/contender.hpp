#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/platform/world.hpp"

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
  /// Collective. @throws Error{transport}
  virtual void close() = 0;

 private:
  std::string name_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// The ways there are to run an operation: lockstep's own, then the MPI library's blocking call ("mpi") and its
/// nonblocking one ("mpi-native").
std::span<const std::string_view> contender_names(CollectiveKind op);

/// Those that the options name, in that order. Each makes its own progress, so that none pays for polling the others.
/// With more ranks than cores they yield the core at once while they wait. Collective.
/// @throws Error{transport}; Error{invalid_argument} for a segment or number in flight out of range
Contenders make_contenders(const World& world, const Options& options);

}  // namespace lockstep::comm_bench
