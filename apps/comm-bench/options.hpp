// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/command_line.hpp"
#include "apps/comm-bench/report.hpp"
#include "collectives/choice/choice.hpp"
#include "collectives/choice/selection.hpp"
#include "lockstep/base/buffer.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/collective.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "platform/ranks/agreement.hpp"

namespace lockstep::comm_bench {

/// A question about the choices of `auto` on a cluster that need not exist.
struct PredictionQuestion {
  collectives::Selection selection;  ///< the cluster and its prices
  std::vector<Bytes> sizes;
  std::optional<double> compute_seconds;  ///< time of one step on one rank
  double overlap = 0;                     ///< the fraction of `compute_seconds` that can overlap with communication
};

/// Returns compute / (compute + exposed), where `exposed` is the communication that exceeds `overlap · compute`.
double scaling_efficiency(double compute_seconds, double overlap, double communication_seconds);

/// For one size, lists all candidates of `auto`; for several sizes, lists the choice at each. The efficiency is
/// included if the compute time is known.
std::string prediction_text(const PredictionQuestion& question);

struct Options;

/// Returns --predict and the options that belong to it. @param options  receives the values; outlives the result
cli::OptionGroup prediction_options(Options& options);

/// The cluster that --predict asks about, as the user describes it.
struct ClusterOptions {
  bool predict = false;
  int nodes = 0;
  int ranks_per_node = 0;
  double latency_seconds = 0;
  double overhead_seconds = 0;  ///< 0: the same fraction of the latency as in default_prices
  double bandwidth = 0;         ///< bytes per second, like the next two
  double local_bandwidth = 0;
  double add_bandwidth = 0;
  double local_latency_seconds = 0;
  Bytes bytes;                 ///< 0: a range of sizes
  double compute_seconds = 0;  ///< 0: unknown
  double overlap = 0;
};

/// Returns the question of --predict; nothing without it.
/// @param untuned        the segment and the blocks in flight for auto
/// @param range          the sizes if --bytes is not given
/// @param element_bytes  sizes are rounded to whole elements
/// @throws UsageError for an option that is missing, invalid, or given without --predict
std::optional<PredictionQuestion> prediction_of(const cli::OptionValues& flags, const ClusterOptions& cluster,
                                                const collectives::Choice& untuned, const SizeRange& range,
                                                std::int64_t element_bytes);

/// Parses "300ns", "2us", "1.5ms" or "1s" to seconds. @throws UsageError naming the text unless it is positive and has
/// a unit
double parse_duration(std::string_view text);

/// Parses "400Gbit", "12.5GB" or "100Mbit/s" to bytes per second. The unit is bits or bytes (B) per second; K, M, G and
/// T are powers of 1000, as usual for networks. @throws UsageError naming the text unless it is positive and has a unit
double parse_bandwidth(std::string_view text);

/// Where the buffers are: in memory from each communicator's allocate(), or in the program's ordinary memory.
enum class Buffers { allocate, user };

/// The checked command line.
struct Options {
  CollectiveKind op = CollectiveKind::all_reduce;
  std::vector<std::string> algorithms;  ///< from contender_names(op, group.device)
  bool algorithms_given = false;        ///< if false, `algorithms` has all that can run
  SizeRange sizes;
  DType dtype = DType::float32;
  Effort effort;
  bool prepared = false;  ///< whether communicators start prepared operations
  Buffers buffers = Buffers::allocate;
  collectives::Choice choice;  ///< the settings of lockstep's own algorithms; its algorithm is unused
  GroupOptions group;          ///< of each contender but "mpi"; its algorithm is unused
  std::string waiting =
      "auto";            ///< one of wait_names(); `group.wait` is what it means on this node, once that is known
  std::string json;      ///< file to write; empty: none
  std::string tune;      ///< file to tune into, instead of measuring
  bool explain = false;  ///< print the choices instead of measuring
  ClusterOptions cluster;
  std::optional<PredictionQuestion> prediction;  ///< predict instead of measuring
  std::vector<Term> settings;                    ///< the options that must be the same on all ranks
  std::string to_print;                          ///< text for --help or --version; otherwise empty
};

/// @throws UsageError that names what is wrong and, for a misspelt word, the nearest right one
Options parse_options(int argc, const char* const* argv);

}  // namespace lockstep::comm_bench
