// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/comm-bench/measure.hpp"
#include "apps/comm-bench/prediction.hpp"
#include "apps/comm-bench/sizes.hpp"
#include "collectives/choice/choice.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::comm_bench {

/// Where the buffers are: in memory from each communicator's allocate(), or in the program's ordinary memory.
enum class Buffers { allocate, user };

/// The checked command line.
struct Options {
  CollectiveKind op = CollectiveKind::all_reduce;
  std::vector<std::string> algorithms;  ///< from contender_names(op, device)
  bool algorithms_given = false;        ///< if false, `algorithms` has all that can run
  Device device = Device::cpu;
  SizeRange sizes;
  DType dtype = DType::float32;
  int repetitions = 0;   ///< 0: as many as fit into `seconds`
  double seconds = 0.5;  ///< target for each size and algorithm
  int warmup = 2;
  Protocol protocol = Protocol::common_clock;
  bool prepared = false;  ///< whether communicators start prepared operations
  Buffers buffers = Buffers::allocate;
  Bytes segment = collectives::Choice{}.segment;
  int in_flight = collectives::Choice{}.blocks_in_flight;
  int radix = 2;
  double timeout_seconds = 300;
  std::string waiting = "auto";  ///< one of wait_names()
  WaitPolicy wait;               ///< the policy that `waiting` means on this node, once the node is known
  bool check = false;            ///< whether the MPI library's nonblocking contender compares the calls of the ranks
  std::string json;              ///< file to write; empty: none
  std::string tuning;            ///< the selection table for "auto"; empty: the cost model
  std::string tune;              ///< file to tune into, instead of measuring
  bool explain = false;          ///< print the choices instead of measuring
  std::optional<PredictionQuestion> prediction;  ///< predict instead of measuring
  std::vector<Setting> settings;                 ///< the options that must be the same on all ranks
  std::string to_print;                          ///< text for --help or --version; otherwise empty
};

/// @throws UsageError that names what is wrong and, for a misspelt word, the nearest right one
Options parse_options(int argc, const char* const* argv);

}  // namespace lockstep::comm_bench
