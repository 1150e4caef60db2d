// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/origin_process.hpp"
#include "ddp/finite_check.hpp"
#include "ddp/reducer.hpp"
#include "ddp/tensors.hpp"
#include "ddp/value_check.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {

/// The values that the ranks sum beside the gradients: weights, the number of ranks that have one, counts of gradients
/// that are not finite, the digest of values, the program's numbers, and which parameters are ready.
class Tally {
 public:
  explicit Tally(std::size_t parameters) : used_(parameters, 0), missing_(parameters, 0) {}

  void use(int parameter) { used_[static_cast<std::size_t>(parameter)] = 1; }
  [[nodiscard]] bool is_used(int parameter) const { return used_[static_cast<std::size_t>(parameter)] != 0; }
  void add(double weight, std::span<const double> sums);
  /// Returns this rank's sum so far.
  [[nodiscard]] double weight() const { return weight_; }

  /// Starts the all-reduce of the sums. @param not_finite  how many gradients of this rank are not finite
  Work send(Communicator& communicator, double not_finite, const ValueCheck::Digest& digest);
  /// Returns the sums over all ranks and resets the tally. @pre the all-reduce has ended. @param sums  overwritten
  DataParallel::Step take(std::span<double> sums);
  /// Resets this rank's sums.
  void begin_anew();
  /// Returns how many gradients are not finite, over all ranks. @pre the all-reduce has ended
  [[nodiscard]] double not_finite() const { return all_ranks_[2]; }
  /// Returns whether some ranks with a weight made a parameter ready, and others did not, or only ranks without a
  /// weight did. @pre the all-reduce has ended
  [[nodiscard]] bool is_uneven() const;
  /// Returns which parameters this rank left out although it had a weight, in the step that was taken last, as flags.
  [[nodiscard]] const std::vector<std::uint8_t>& missing() const { return missing_; }
  /// Returns the sums of the digests that were sent last. @pre the all-reduce has ended
  [[nodiscard]] std::span<const double> digest() const {
    return std::span(all_ranks_).subspan(3, std::tuple_size_v<ValueCheck::Digest>);
  }

 private:
  [[nodiscard]] std::span<const double> used_by_all() const { return std::span(all_ranks_).last(used_.size()); }

  double weight_ = 0;
  std::vector<double> sums_;
  std::vector<char> used_;             // by parameter
  std::vector<std::uint8_t> missing_;  // by parameter
  std::vector<double> all_ranks_;      // weight, ranks with a weight, not finite, digest, sums, used
};

}  // namespace lockstep::ddp

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
  /// Returns the names of the parameters for a message, of many only the first.
  [[nodiscard]] std::string names_of(const std::vector<int>& parameters) const;
  /// Returns how many sums of gradients this rank contributes.
  [[nodiscard]] int sums() const;
  void send(int parameter);
};

}  // namespace lockstep
