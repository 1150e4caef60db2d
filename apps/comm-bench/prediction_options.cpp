// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/prediction_options.hpp"

#include <limits>
#include <string>

#include "apps/comm-bench/units.hpp"
#include "apps/common/command_line.hpp"

namespace lockstep::comm_bench {
namespace {

namespace po = boost::program_options;

std::string text_of(const po::variables_map& flags, const char* option) { return flags[option].as<std::string>(); }

void refuse_alone(const po::variables_map& flags) {
  for (const char* option : {"nodes", "ranks-per-node", "latency", "overhead", "bandwidth", "bytes", "compute-seconds"})
    if (flags.count(option) != 0) throw UsageError("--" + std::string(option) + " belongs to --predict");
}

int positive(const po::variables_map& flags, const char* option) {
  if (flags.count(option) == 0) throw UsageError("--predict needs --" + std::string(option));
  const int value = flags[option].as<int>();
  lockstep::require(value >= 1, option, value, "it must be at least 1");
  return value;
}

/// @pre `parse` takes text and names it in its error
template <typename Parse>
double needed(const po::variables_map& flags, const char* option, const Parse& parse) {
  if (flags.count(option) == 0) throw UsageError("--predict needs --" + std::string(option));
  return parse(text_of(flags, option));
}

collectives::ShapeSummary cluster_of(const po::variables_map& flags) {
  const int nodes = positive(flags, "nodes");
  const int together = positive(flags, "ranks-per-node");
  lockstep::require(nodes <= std::numeric_limits<int>::max() / together / 2, "nodes", nodes,
                    "times --ranks-per-node is beyond 2^30 ranks");
  return {.nodes = nodes, .ranks = nodes * together, .min_ranks_per_node = together, .max_ranks_per_node = together};
}

/// Without the option the part that it has in default_prices.
double overhead_of(const po::variables_map& flags, double latency) {
  if (flags.count("overhead") == 0) return latency / 10;
  const double overhead = parse_duration(text_of(flags, "overhead"));
  lockstep::require(overhead <= latency, "overhead", text_of(flags, "overhead"), "it is a part of --latency");
  return overhead;
}

collectives::Prices prices_of(const po::variables_map& flags) {
  const double latency = needed(flags, "latency", parse_duration);
  const collectives::LinkCost remote{.alpha_seconds = latency,
                                     .beta_seconds_per_byte = 1 / needed(flags, "bandwidth", parse_bandwidth),
                                     .wire_seconds = latency - overhead_of(flags, latency)};
  const collectives::LinkCost local{.alpha_seconds = parse_duration(text_of(flags, "local-latency")),
                                    .beta_seconds_per_byte = 1 / parse_bandwidth(text_of(flags, "local-bandwidth"))};
  const double gamma = 1 / parse_bandwidth(text_of(flags, "add-bandwidth"));
  return {.messages = {local, remote, gamma},
          .shared_memory = {local.alpha_seconds, local.beta_seconds_per_byte, gamma}};
}

std::vector<Bytes> sizes_of(const po::variables_map& flags, const SizeRange& range, std::int64_t element_bytes) {
  if (flags.count("bytes") != 0) return {parse_size(text_of(flags, "bytes"))};
  std::vector<Bytes> sizes;
  for (const Count count : part_counts(range, element_bytes, 1)) sizes.push_back({count.value * element_bytes});
  return sizes;
}

}  // namespace

po::options_description prediction_flags() {
  po::options_description flags("Prediction, for a cluster that need not exist");
  const auto text = [](const char* initial) { return po::value<std::string>()->default_value(initial); };
  flags.add_options()  //
      ("predict", po::bool_switch(),
       "print what an all_reduce would take by the model that auto chooses by; measure nothing")                    //
      ("nodes", po::value<int>(), "how many")                                                                       //
      ("ranks-per-node", po::value<int>(), "the same on each")                                                      //
      ("latency", po::value<std::string>(), "of a message between nodes: 2us; ns, us, ms or s")                     //
      ("overhead", po::value<std::string>(), "the part of it that keeps a rank busy; a tenth of it unless given")   //
      ("bandwidth", po::value<std::string>(), "of a node's link each way, which its ranks share: 400Gbit or 50GB")  //
      ("local-latency", text("500ns"), "of a message or of a look at a peer's memory inside a node")                //
      ("local-bandwidth", text("10GB"), "of each rank inside a node")                                               //
      ("add-bandwidth", text("10GB"), "bytes that a rank adds up per second")                                       //
      ("bytes", po::value<std::string>(), "the buffer; without it the choice at each size from --min to --max")     //
      ("compute-seconds", po::value<double>(),
       "of one step; gives the scaling efficiency,\n"
       "compute / (compute + exposed communication)")  //
      ("overlap", po::value<double>()->default_value(0, "0"),
       "the part of the compute time, 0 to 1, behind which communication can hide; what is left is exposed");
  return flags;
}

std::optional<PredictionQuestion> parse_prediction(const po::variables_map& flags, const collectives::Choice& untuned,
                                                   const SizeRange& range, std::int64_t element_bytes) {
  if (!flags["predict"].as<bool>()) {
    refuse_alone(flags);
    return std::nullopt;
  }
  PredictionQuestion question;
  question.selection = {.shape = cluster_of(flags), .untuned = untuned, .prices = prices_of(flags)};
  question.sizes = sizes_of(flags, range, element_bytes);
  question.overlap = flags["overlap"].as<double>();
  lockstep::require(question.overlap >= 0 && question.overlap <= 1, "overlap", question.overlap,
                    "it lies between 0 and 1");
  if (flags.count("compute-seconds") != 0) {
    question.compute_seconds = flags["compute-seconds"].as<double>();
    lockstep::require(*question.compute_seconds > 0 && *question.compute_seconds <= 1e9, "compute-seconds",
                      *question.compute_seconds, "it must be positive");
  }
  return question;
}

}  // namespace lockstep::comm_bench
