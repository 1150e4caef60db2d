// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/node_memory/flight_recorder.hpp"
#include "platform/watchdog/process.hpp"

namespace lockstep {

/// What is known of one rank, from itself, from a rank of its node, or from its last heartbeat.
struct RankReport {
  int rank = 0;
  std::string host;
  int process = 0;
  std::string state;        ///< of the process; see `process_state`
  std::int64_t step = 0;    ///< training step, from 1; 0: outside of training
  std::string task;         ///< what the rank is doing; empty if lockstep does not know
  std::string operation;    ///< its last operation: "all_reduce 'bucket 3' (1,024 bytes) of step 7"; empty: none
  bool is_waiting = false;  ///< whether the rank has not come out of that operation
  double seconds = 0;       ///< how long ago the operation was submitted
  std::vector<std::string> history;  ///< the operations before it, oldest first
  std::vector<ThreadStack> stacks;   ///< empty where another rank reports
  /// Says who reports where the rank does not: "rank 2, which shares its node". Empty: the rank itself.
  std::string source;
};

/// Reads a rank's record. The stacks are left empty.
RankReport report_from(const FlightRecorder& record, int rank, const std::string& host);

std::string to_json(const std::vector<RankReport>& reports);
/// Reads reports, whoever sent them: texts are shortened and fit to print (see `echo`), and lists are cut.
/// @param ranks  number of ranks of the job; reports of other ranks are left out
/// @return nothing if the text is no list of reports
std::optional<std::vector<RankReport>> reports_from_json(const std::string& text, std::size_t ranks);

/// Explains what all ranks of a job do: ranks that do the same are one line, and ranks whose first threads wait at the
/// same place are one stack. What the fewest ranks do comes first.
/// @param hosts    the host of each rank
/// @param reports  at most one for each rank; a rank without one is said not to answer
/// @param history  how many operations before the last one are listed for ranks that differ from the majority
std::string explain_ranks(const std::vector<std::string>& hosts, const std::vector<RankReport>& reports,
                          std::size_t history);

}  // namespace lockstep
