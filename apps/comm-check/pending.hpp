// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "apps/comm-check/scenario.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::check {

/// Memory for an operand between two bands that nobody may write.
class GuardedBuffer {
 public:
  /// @param allocated  by the communicator, or ordinary memory
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
  /// With what this rank brings.
  Pending(Communicator& communicator, const Request& request);
  /// What is to be submitted.
  [[nodiscard]] Collective collective();
  /// Submits it.
  void start(Communicator& communicator);
  /// Somebody else has.
  void is_under_way_as(Work work) { work_.emplace(std::move(work)); }

  /// As it was asked for.
  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] std::size_t group() const { return request_.group; }
  [[nodiscard]] bool test() { return work_ ? work_->test() : prepared_->test(); }
  /// Starts the prepared operation once more. @pre it has been waited for; it is the same operation
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
  /// The sums that a rank brings beside the first are not changed.
  void check_other_sums() const;

  Request request_;
  int leaves_;  // 0 also where the communicator adds up none
  int size_;
  int me_;
  std::vector<Count> parts_;
  std::vector<Count> received_;
  GuardedBuffer in_;
  GuardedBuffer out_;
  std::optional<Prepared> prepared_;
  std::optional<Work> work_;  // of what was not prepared
};

}  // namespace lockstep::check
