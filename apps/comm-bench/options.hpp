// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/comm-bench/prediction.hpp"
#include "apps/comm-bench/sizes.hpp"
#include "apps/comm-bench/start_line.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/collectives/choice/choice.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "platform/mpi/require_equal.hpp"

namespace lockstep::comm_bench {

/// Where the buffers lie: in what each communicator's allocate() gives, or in the program's ordinary memory.
enum class Buffers { allocate, user };

/// What the command line asks for.
struct Options {
  CollectiveKind op = CollectiveKind::all_reduce;
  std::vector<std::string> algorithms;  ///< of contender_names(op, device)
  bool algorithms_given = false;        ///< else they are all of them, wherever they can run
  Device device = Device::cpu;
  SizeRange sizes;
  DType dtype = DType::float32;
  int repetitions = 0;   ///< 0: as many as fit into `seconds`
  double seconds = 0.5;  ///< aimed at for each size and algorithm
  int warmup = 2;
  Protocol protocol = Protocol::common_clock;
  bool prepared = false;  ///< communicators start prepared operations
  Buffers buffers = Buffers::allocate;
  Bytes segment = collectives::Choice{}.segment;
  int in_flight = collectives::Choice{}.blocks_in_flight;
  int radix = 2;
  double timeout_seconds = 300;
  std::string waiting = "auto";                  ///< of wait_names()
  WaitPolicy wait;                               ///< what that is on this node, once it is known
  bool check = false;                            ///< the MPI library's nonblocking call compares what ranks call
  std::string json;                              ///< a file to write; empty: none
  std::string tuning;                            ///< the selection table that "auto" goes by; empty: the cost model
  std::string tune;                              ///< tune instead of measuring, and write to this file
  bool explain = false;                          ///< say what is chosen instead of measuring
  std::optional<PredictionQuestion> prediction;  ///< asked for instead of a measurement
  std::vector<Setting> settings;                 ///< those that all ranks must have alike
  std::string to_print;                          ///< not empty where --help or --version asks for this text instead
};

/// @throws UsageError that names what is wrong and, for a misspelt word, the nearest right one
Options parse_options(int argc, const char* const* argv);

}  // namespace lockstep::comm_bench
