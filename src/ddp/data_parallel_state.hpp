// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ddp/finite_check.hpp"
#include "ddp/reducer.hpp"
#include "ddp/tally.hpp"
#include "ddp/tensors.hpp"
#include "ddp/value_check.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep {

/// What a DataParallel is made of, and the parts of a step.
struct DataParallel::State {
  State(ProcessGroup& group_in, ddp::Tensors tensors_in, const DataParallelOptions& options_in);

  /// Begins to work with a group. Collective.
  void join(ProcessGroup& other);

  void check_synchronized() const;
  void check_complete() const;
  [[nodiscard]] bool within_a_step() const;
  /// An error that is this rank's alone.
  [[nodiscard]] Error refusal(const std::string& why, const std::string& label = {}) const;

  void move_gradient(int parameter, const Buffer& gradient);
  void make_ready(int parameter, Queue its_queue);
  void send_the_rest();
  /// Compares all ranks' values if it is time to.
  void look_at_values();
  void end_step();
  Step take(std::span<double> sums, const Finding& finding);

  std::mutex turn;  // of the threads that call
  ProcessGroup* group = nullptr;
  DataParallelOptions options;
  ddp::Tensors tensors;
  ddp::Tally tally;
  ddp::FiniteCheck finite;
  ddp::ValueCheck values;
  std::vector<char> is_ready;  // in this backward, by parameter
  std::optional<ddp::Reducer> reducer;
  Queue queue = Queue::host();  // of this step's gradients
  int scopes = 0;               // that send nothing
  std::int64_t step = 1;        // the number of the step under way
  bool synchronized = false;
  double exposed_before = 0;  // with other groups

 private:
  void check_parameter(int parameter) const;
  void check_sharing() const;
  void check_sharding() const;
  /// How many sums of gradients this rank brings.
  [[nodiscard]] int sums() const;
  void send(int parameter);
};

}  // namespace lockstep
