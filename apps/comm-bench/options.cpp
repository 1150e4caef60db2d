// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/options.hpp"

#include <algorithm>
#include <chrono>

#include "apps/cli/help.hpp"
#include "apps/cli/run_app.hpp"
#include "apps/comm-bench/contenders.hpp"
#include "backends/plan/options.hpp"
#include "base/nearest.hpp"
#include "collectives/algorithms/operations.hpp"

namespace lockstep::comm_bench {
namespace {

using namespace cli;

constexpr std::array dtypes = {DType::float32, DType::float64, DType::int32,   DType::int64,
                               DType::uint8,   DType::float16, DType::bfloat16};

constexpr std::array devices = {Device::cpu, Device::cuda};
/// In the order of `Buffers`.
constexpr std::array<std::string_view, 2> buffer_names = {"allocate", "user"};

template <typename List>
Word names_of(const List& values) {
  Word names;
  for (const auto value : values) names.words.push_back(name(value));
  return names;
}
/// @pre the word is the name of one of the values, which the option's row ensures
template <const auto& values>
auto one_named(const std::string& word) -> typename std::remove_cvref_t<decltype(values)>::value_type {
  return *std::ranges::find_if(values, [&](auto value) { return name(value) == word; });
}

std::chrono::duration<double> to_duration(double seconds) { return std::chrono::duration<double>(seconds); }

constexpr std::int64_t most = 1'000'000'000;

OptionGroup measuring_options(Options& o) {
  return {"What is measured",
          {row("op", names_of(collectives::planned_kinds()), "all_reduce", "collective operation",
               into(o.op, collectives::parse_kind)),
           row("device", names_of(devices), "cpu", "where buffers are; with cuda NCCL's algorithms run",
               into(o.group.device, one_named<devices>)),
           row("min", Text{"SIZE"}, "4", "smallest buffer in bytes; K, M and G are powers of 1024",
               into(o.sizes.min, parse_size)),
           row("max", Text{"SIZE"}, "64M", "largest buffer", into(o.sizes.max, parse_size)),
           row("factor", Whole{2, most}, "4", "ratio of each size to the one before", into(o.sizes.factor)),
           row("algorithm", Text{"NAME,..."}, described("all of the operation's"), "algorithms, with commas between"),
           row("dtype", names_of(dtypes), "float32", "data type of the elements", into(o.dtype, one_named<dtypes>)),
           row("buffers", one_of(buffer_names), "allocate",
               "memory of the buffers: the communicator's own, or ordinary memory",
               into(o.buffers, value_named<Buffers, buffer_names>)),
           row("prepared", Switch{}, "no", "start a prepared operation each time; not for the algorithm mpi",
               into(o.prepared))}};
}

OptionGroup effort_options(Options& o) {
  return {"How it is measured",
          {row("repetitions", Whole{0, most, "auto"}, "auto",
               "repetitions for each size and algorithm; auto: as many as fit into --seconds, from 5 to 1000",
               into(o.effort.repetitions)),
           row("seconds", Real{.min = 0, .max = 1e6, .above_min = true}, "0.5",
               "time to spend on each size and algorithm", into(o.effort.seconds)),
           row("warmup", Whole{1, most}, "2", "rounds before those that count", into(o.effort.warmup)),
           row("protocol", one_of(protocol_names), "common-clock", "when the time of a repetition begins",
               into(o.effort.protocol, value_named<Protocol, protocol_names>)),
           row("comm-timeout", Real{.min = 0.001, .max = 1e7}, std::to_string(usual_deadline.count()),
               "seconds without progress that end the run", into(o.group.deadline, to_duration), Scope::each_rank),
           row("json", Text{"FILE"}, no_default, "write the results to FILE", into(o.json), Scope::each_rank)}};
}

OptionGroup algorithm_options(Options& o) {
  return {"Settings of the algorithms",
          {row("segment", Text{"SIZE"}, "63K", "longest message of lockstep's own algorithms",
               into(o.choice.segment, parse_size)),
           row("in-flight", Whole{1, most}, "4", "blocks in flight at a time in lockstep's own algorithms",
               into(o.choice.blocks_in_flight)),
           row("radix", Whole{2, most}, "2", "most ranks that exchange in one round of halving- and recursive-doubling",
               into(o.choice.radix)),
           row("wait", one_of(wait_names()), "auto", "what own algorithms do while they wait", into(o.waiting),
               Scope::each_rank),
           row("sockets", one_of(backends::socket_names()), "auto",
               "let own algorithms send messages between hosts over TCP connections of their own; auto: where no host "
               "has RDMA and all can connect",
               into(o.group.sockets)),
           row("checksum", Switch{}, "no", "give messages over these connections a checksum", into(o.group.checksum)),
           row("connections", Whole{1, backends::PlanOptions::most_connections}, "1",
               "number of these connections between two ranks", into(o.group.connections)),
           row("check", Switch{}, "no",
               "let mpi-native and NCCL compare what ranks call first; the others notice differences without it",
               into(o.group.check))}};
}

OptionGroup tuning_options(Options& o) {
  return {"Selection",
          {row("tuning", Text{"FILE"}, described("a cost model"), "selection table for the algorithm auto",
               into(o.group.tuning), Scope::each_rank),
           row("tune", Text{"FILE"}, no_default, "find what is fastest, and add it to the selection table in FILE",
               into(o.tune)),
           row("explain", Switch{}, "no", "print what is chosen for each size, and why; measure nothing",
               into(o.explain))}};
}

/// @param o  receives the values; outlives the result
Program describe(Options& o) {
  return {
      .name = "comm-bench",
      .synopsis = "[mpirun -np RANKS] comm-bench [options]",
      .about =
          "Times collectives: lockstep's own algorithms beside the MPI library's blocking call (mpi) and its "
          "nonblocking one (mpi-native). auto is the own algorithm that is thought best for a size. With --device "
          "cuda it times NCCL on device memory: auto is NCCL's own choice, which a process can have or ring or tree.",
      .groups = {measuring_options(o), effort_options(o), algorithm_options(o), tuning_options(o),
                 prediction_options(o), general_options()},
      .notes =
          "Every rank rewrites its whole buffer before each operation and checks the whole result after it. "
          "Operations are in place, except for reduce_scatter and all_to_all; roots are rank 0. With _v the parts' "
          "lengths grow with the rank, from 2/(p+1) to 2p/(p+1) of the mean. The algorithms take turns. A "
          "repetition's time is its slowest rank's, from a start that ranks of one machine agree on, by their "
          "common clock; on several machines a barrier stands in for it. Bandwidths are of the median, as nccl-tests "
          "defines them. A wrong result is an error, too."};
}

/// @throws UsageError with the nearest of `words` unless `word` is one of them
void require_known(std::string_view what, std::string_view word, std::span<const std::string_view> words) {
  if (std::ranges::find(words, word) != words.end()) return;
  throw UsageError(unknown(what, word, words));
}

std::vector<std::string> parse_algorithms(const OptionValues& flags, CollectiveKind op, Device device) {
  const auto known = contender_names(op, device);
  const bool is_given = flags.has("algorithm");
  // NCCL uses one algorithm of its own in a process.
  if (!is_given && device == Device::cuda) return {std::string(automatic)};
  if (!is_given) return {known.begin(), known.end()};
  std::vector<std::string> names;
  for (const std::string& word : words_of(flags.get<std::string>("algorithm"))) {
    require_known(std::string(name(op)) + " algorithm" + (device == Device::cuda ? " on cuda" : ""), word, known);
    if (std::ranges::find(names, word) != names.end()) {
      throw UsageError("--algorithm names '" + word + "' twice");
    }
    names.push_back(word);
  }
  return names;
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw UsageError(otherwise);
}

/// Rejects options that have no meaning with NCCL.
void reject_cpu_only_options(const OptionValues& flags) {
  for (const char* flag : {"segment", "in-flight", "radix", "tuning", "tune", "explain", "predict"}) {
    require(!flags.has(flag), std::string("--") + flag + " has no meaning with --device cuda");
  }
}

void check(const Options& o) {
  require(o.sizes.min.value <= o.sizes.max.value, "--min (" + std::to_string(o.sizes.min.value) +
                                                      " bytes) is larger than --max (" +
                                                      std::to_string(o.sizes.max.value) + ")");
  const bool chooses = std::ranges::find(o.algorithms, automatic) != o.algorithms.end();
  require(o.group.tuning.empty() || chooses, "--tuning is for the algorithm 'auto'; --algorithm does not name it");
  require(o.tune.empty() || (o.group.tuning.empty() && o.json.empty() && !o.explain),
          "--tune measures for its own purpose; it goes with neither --tuning nor --json nor --explain");
  require(o.group.device == Device::cpu || o.buffers == Buffers::allocate,
          "--buffers user has no meaning with --device cuda");
  require(!o.explain || o.json.empty(), "--explain measures nothing that --json could hold");
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  const Program program = describe(options);
  const OptionValues flags = read_command_line(argc, argv, program);
  options.to_print = requested_text(flags, program);
  if (!options.to_print.empty()) return options;
  flags.store();
  if (options.group.device == Device::cuda) reject_cpu_only_options(flags);
  options.algorithms = parse_algorithms(flags, options.op, options.group.device);
  options.algorithms_given = flags.has("algorithm");
  options.settings = flags.of_all_ranks();
  check(options);
  options.prediction = prediction_of(flags, options.cluster, options.choice, options.sizes, size_of(options.dtype));
  require(!options.prediction || options.op == CollectiveKind::all_reduce, "--predict supports all_reduce only");
  return options;
}

}  // namespace lockstep::comm_bench
