// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/comm-bench/exercise.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/collective.hpp"

namespace lockstep::comm_bench {

/// The communication that a measurement needs among its ranks, implemented by comm-bench's own communicator or by that
/// of a peer's program. Every function is collective; none is timed.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  [[nodiscard]] virtual int size() const = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
  /// Overwrites each number with the maximum over all ranks.
  virtual void max(std::span<std::int64_t> numbers) = 0;
  /// Overwrites each number with the sum over all ranks.
  virtual void sum(std::span<std::int64_t> numbers) = 0;
};

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
inline bool is_mpi_contender(std::string_view contender) { return contender == "mpi" || contender == "mpi-native"; }

/// When a timed operation begins.
enum class Protocol {
  common_clock,  ///< at a moment that the ranks of one machine agree on; across machines like `barrier`
  barrier,       ///< for each rank when it leaves a barrier, by its own clock, as in most programs
};
/// In the order of `Protocol`.
inline constexpr std::array<std::string_view, 2> protocol_names = {"common-clock", "barrier"};

/// Lets ranks begin a timed operation together; the time that this takes is not measured.
///
/// Ranks leave a barrier one after the other, up to a microsecond apart, differently in each MPI library. The first
/// rank to leave then waits in the operation for the last, so the time of a small operation would be dominated by the
/// barrier. Ranks that read the same clock, because they run under one kernel, therefore agree on a moment in the
/// future and wait for it. Several machines have no such clock, so they use the barrier.
/// @source Hunold, Carpen-Amarie, IEEE TPDS 27(12), 2016 (window-based synchronization)
class StartLine {
 public:
  /// Finds out whether the ranks share a clock. Collective.
  /// @param yields  whether it yields the core while it waits, even if each rank has a core
  StartLine(Ranks& ranks, Protocol protocol, bool yields = false);

  [[nodiscard]] bool common_clock() const { return common_clock_; }
  /// Waits until all ranks may begin. @return the moment to count from: the agreed one, or otherwise this rank's own
  Clock::time_point wait();

 private:
  Ranks* ranks_;
  bool common_clock_;
  bool yields_;  // also true with more ranks than cores, to let the other ranks run
  Clock::duration lead_;
};

/// The result for one contender at one size; the same on all ranks.
struct Measurement {
  std::string algorithm;
  Bytes bytes;
  Count count;  ///< elements per rank, of the buffer or of a part
  double median_seconds = 0;
  double min_seconds = 0;
  std::int64_t wrong = 0;  ///< number of wrong elements, over all ranks and repetitions
};

/// How often each contender is measured.
struct Effort {
  int warmup = 2;           ///< rounds that are not measured, at least 1
  int repetitions = 0;      ///< 0: as many as fit into `seconds`, from `min_repetitions` to 1000
  double seconds = 0.5;     ///< for each contender
  int min_repetitions = 5;  ///< the fewest for a meaningful median
  Protocol protocol = Protocol::common_clock;
  bool yields = false;  ///< whether ranks yield at the start line, to threads of the measured library
};

/// Times the contenders in turn, so that other load on the machine affects all of them alike. The order differs in each
/// round, so that no contender always finds the caches of the same predecessor. A repetition rewrites the buffers,
/// lines up (`StartLine`), runs the operation, which alone is timed, and checks the result. Its time is from the common
/// start until the slowest rank is done; with `Protocol::barrier`, it is the slowest rank's own time. Collective. Every
/// program that lockstep is compared with is timed by this function.
/// @param exercises  exercises of one size: one for each contender, or one for all; refilled before each operation
/// @throws Error as the contenders and the ranks do
std::vector<Measurement> measure(Ranks& ranks, const Contenders& contenders, std::span<Exercise* const> exercises,
                                 const Effort& effort);

}  // namespace lockstep::comm_bench
