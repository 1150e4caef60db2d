// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "apps/comm-check/scenario.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::check {

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
  void is_under_way_as(Work work) { work_.emplace(std::move(work)); }

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
  void check_values() const;
  /// Checks that the rank's sums after the first are unchanged.
  void check_other_sums() const;

  Request request_;
  int leaves_;  // also 0 if the communicator does not support leaves
  int size_;
  int me_;
  std::vector<Count> parts_;
  std::vector<Count> received_;
  GuardedBuffer in_;
  GuardedBuffer out_;
  std::optional<Prepared> prepared_;
  std::optional<Work> work_;  // empty if the operation is prepared
};

}  // namespace lockstep::check
