// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/origin_process.hpp"
#include "ddp/finite_check.hpp"
#include "ddp/reducer.hpp"
#include "ddp/tally.hpp"
#include "ddp/tensors.hpp"
#include "ddp/value_check.hpp"

namespace lockstep {

/// The state of a DataParallel and the phases of a step.
struct DataParallel::State {
  State(ProcessGroup& group_in, ddp::Tensors tensors_in, const DataParallelOptions& options_in);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  /// Starts working with a group. Collective.
  void join(ProcessGroup& other);
  /// Does a part of a step, which has failed as a whole if this throws anything but a usage error.
  template <typename Part>
  auto attempt(const Part& part) {
    try {
      return part();
    } catch (const Error& error) {
      has_failed = has_failed || error.code() != ErrorCode::invalid_argument;
      throw;
    }
  }
  /// Forgets the step that has failed. Its gradients stay where late messages may still arrive.
  void forget_step();

  void check_synchronized() const;
  void check_complete() const;
  [[nodiscard]] bool within_a_step() const;
  /// Returns an error that concerns this rank only.
  [[nodiscard]] Error refusal(const std::string& why, const std::string& label = {}) const;
  [[nodiscard]] Error unsupported(const std::string& why) const;

  void move_gradient(int parameter, const Buffer& gradient);
  void make_ready(int parameter, Queue its_queue);
  void send_the_rest();
  /// Hashes the values in a step that compares them across ranks.
  void look_at_values();
  void end_step();
  Step take(std::span<double> sums);

  OriginProcess origin;
  ProcessGroup* group = nullptr;
  DataParallelOptions options;
  LeafShares shards;  // of each rank; none without shards
  ddp::Tensors tensors;
  ddp::Tally tally;
  ddp::FiniteCheck finite;
  ddp::ValueCheck values;
  std::vector<char> is_ready;  // in this backward pass, by parameter
  std::optional<ddp::Reducer> reducer;
  Queue queue = Queue::host();  // queue of this step's gradients
  int scopes = 0;               // number of active no_sync() scopes
  std::int64_t step = 1;        // number of the current step
  bool synchronized = false;
  bool has_failed = false;    // this step cannot be finished
  double exposed_before = 0;  // exposed seconds with earlier groups

 private:
  void check_parameter(int parameter) const;
  void check_sharing() const;
  void check_sharding() const;
  /// @throws Error{invalid_argument} on every rank if the step has samples and a parameter has no gradient, on all
  ///         ranks or on some ranks that have samples
  void require_gradients(const Step& result) const;
  /// Names the ranks that have samples and no gradient of a parameter that others have. Collective.
  [[noreturn]] void throw_uneven_gradients() const;
  /// Returns how many sums of gradients this rank contributes.
  [[nodiscard]] int sums() const;
  void send(int parameter);
  [[nodiscard]] ddp::FiniteCheck new_check() const;
};

}  // namespace lockstep
