// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/comm-check/scenario.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep::comm_check {

/// Memory for an operand between two guard bands, which must not be written.
class GuardedBuffer {
 public:
  /// @param allocated  whether the communicator allocates it, or it is ordinary memory
  GuardedBuffer(Communicator& communicator, Count count, DType dtype, bool allocated);

  [[nodiscard]] Buffer whole() const { return whole_; }
  [[nodiscard]] bool is_intact() const;

 private:
  Allocation allocation_;
  std::byte* begin_;
  std::byte* end_;
  Buffer whole_;
};

/// An operation under way with its buffers.
class Pending {
 public:
  /// Fills its buffers with this rank's input.
  Pending(Communicator& communicator, const Request& request);
  /// Returns the operation to submit.
  [[nodiscard]] Collective collective();
  /// Submits it.
  void start(Communicator& communicator);
  /// Takes over an operation that the caller has submitted.
  void adopt(Work work) { work_.emplace(std::move(work)); }

  /// Returns the request as it was given.
  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] std::size_t group() const { return request_.group; }
  [[nodiscard]] bool test() { return work_ ? work_->test() : prepared_->test(); }
  /// Starts the prepared operation again. @pre it has been waited for; `request` is the same operation
  void start_again(const Request& request);
  /// @throws WrongResult; Error
  void wait_and_check();

 private:
  [[nodiscard]] std::vector<LeafNode> nodes() const;
  [[nodiscard]] Buffer own_part(const Buffer& all) const;
  [[nodiscard]] Buffer source() const;
  [[nodiscard]] Buffer result() const;
  void fill() const;
  template <typename Right>
  void check_elements(const Buffer& result, const std::string& what, const Right& right) const;
  void check_values() const;
  /// Checks that the rank's sums after the first are unchanged.
  void check_other_sums() const;

  Request request_;
  LeafShares leaves_;  // also none if the communicator does not support leaves
  int size_;
  int me_;
  std::vector<Count> parts_;
  std::vector<Count> received_;
  GuardedBuffer in_;
  GuardedBuffer out_;
  std::optional<Prepared> prepared_;
  std::optional<Work> work_;  // empty if the operation is prepared
};

/// Thrown if an operation ends without an error, but its result, or memory next to it, is wrong.
class WrongResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One rank's part in a scenario.
class Member {
 public:
  /// Makes this rank's communicator of a group; null if this rank is not in the group. The member is its only owner,
  /// unless another owner closes the underlying resources after it is closed.
  using Make = std::function<std::shared_ptr<Communicator>(std::size_t group)>;
  /// Which ranks make and close a communicator together: its members, each when it gets there, or all ranks, after
  /// waiting for everything else that is under way.
  enum class Together { members, all_ranks };

  /// @param between  called between any two actions of the rank, with a random number; it may compute, sleep, or do
  ///        nothing
  Member(const Scenario& scenario, int rank, Progress& progress, Together together, Make make,
         std::function<void(unsigned)> between);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Runs the rounds. A round makes the communicators that begin with it, submits its operations, with the
  /// communicators in any order, waits for some of those under way, in any order, and closes the communicators that end
  /// with it. A rank waits only for operations that every rank submits before it waits for anything later, so no
  /// schedule can deadlock. @throws WrongResult; Error, as an operation failed
  void run();
  /// Leaves without closing anything. What it has sent or published stays readable for the others.
  void abandon();
  /// Calls Communicator::abort on all that this rank has.
  void abort(std::string_view why);
  /// Returns the communicator that it used last.
  [[nodiscard]] std::size_t last_group() const { return last_group_; }

 private:
  using Order = std::array<int, 3>;          // a communicator, or a sender and a receiver on it
  using Unit = std::vector<const Request*>;  // one request, or several that are submitted as a group
  static Order order_of(const Request& request, const std::vector<Request>& requests);
  void make_communicators(std::size_t round);
  void close_communicators(std::size_t round);
  void submit(const std::vector<Request>& requests);
  void wait_for(Pending& pending);
  void wait_for_any();
  void wait_for_all();
  void wait_for_all_of(std::size_t group);
  void wait_for_those_that_start_again(const std::vector<Request>& requests);
  void start(const Unit& unit);
  void start(const Request& request);
  void keep(std::unique_ptr<Pending> pending);
  void pause();
  [[nodiscard]] bool is_in(std::size_t group) const;
  [[nodiscard]] bool has_part_in(const Request& request) const;

  const Scenario& scenario_;
  int rank_;
  Progress& progress_;
  Together together_;
  Make make_;
  std::function<void(unsigned)> between_;
  std::mt19937_64 random_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Pending>> under_way_;
  std::map<int, std::unique_ptr<Pending>> kept_;  // prepared operations that are not under way, by number
  std::size_t last_group_ = 0;
};

}  // namespace lockstep::comm_check
