// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/options.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <type_traits>

#include "apps/comm-bench/contenders.hpp"
#include "apps/common/help.hpp"
#include "apps/common/same_options.hpp"
#include "backends/plan/options.hpp"
#include "base/nearest.hpp"
#include "collectives/algorithms/operations.hpp"

namespace lockstep::comm_bench {
namespace {

constexpr std::array dtypes = {DType::float32, DType::float64, DType::int32,   DType::int64,
                               DType::uint8,   DType::float16, DType::bfloat16};

constexpr std::array devices = {Device::cpu, Device::cuda};
constexpr std::array<std::string_view, 2> buffer_names = {"allocate", "user"};

template <typename List>
Word names_of(const List& values) {
  Word names;
  for (const auto value : values) names.words.push_back(name(value));
  return names;
}
/// @pre the word is the name of one of the values, which the option's row ensures
template <const auto& values>
auto value_named(const std::string& word) -> typename std::remove_cvref_t<decltype(values)>::value_type {
  return *std::find_if(values.begin(), values.end(), [&](auto value) { return name(value) == word; });
}
Buffers buffers_of(const std::string& word) { return word == buffer_names[1] ? Buffers::user : Buffers::allocate; }
Protocol protocol_of(const std::string& word) {
  return word == protocol_names[1] ? Protocol::barrier : Protocol::common_clock;
}

std::chrono::duration<double> to_duration(double seconds) { return std::chrono::duration<double>(seconds); }

constexpr std::int64_t most = 1'000'000'000;

OptionGroup measuring_options(Options& o) {
  return {
      "What is measured",
      {option("op", names_of(collectives::planned_kinds()), "collective operation", "all_reduce",
              into(o.op, collectives::parse_kind)),
       option("device", names_of(devices), "where buffers are; with cuda NCCL's algorithms run", "cpu",
              into(o.group.device, value_named<devices>)),
       option("min", Text{"SIZE"}, "smallest buffer in bytes; K, M and G are powers of 1024", "4",
              into(o.sizes.min, parse_size)),
       option("max", Text{"SIZE"}, "largest buffer", "64M", into(o.sizes.max, parse_size)),
       option("factor", Whole{2, most}, "ratio of each size to the one before", "4", into(o.sizes.factor)),
       {.name = "algorithm",
        .domain = Text{"NAME,..."},
        .help = "algorithms, with commas between",
        .default_text = "all of the operation's"},
       option("dtype", names_of(dtypes), "data type of the elements", "float32", into(o.dtype, value_named<dtypes>)),
       option("buffers", one_of(buffer_names), "memory of the buffers: the communicator's own, or ordinary memory",
              "allocate", into(o.buffers, buffers_of)),
       option("prepared", Switch{}, "start a prepared operation each time; not for the algorithm mpi", "no",
              into(o.prepared))}};
}

OptionGroup effort_options(Options& o) {
  return {
      "How it is measured",
      {option("repetitions", Whole{0, most, "auto"},
              "repetitions for each size and algorithm; auto: as many as fit into --seconds, from 5 to 1000", "auto",
              into(o.effort.repetitions)),
       option("seconds", Real{.min = 0, .max = 1e6, .above_min = true}, "time to spend on each size and algorithm",
              "0.5", into(o.effort.seconds)),
       option("warmup", Whole{1, most}, "rounds before those that count", "2", into(o.effort.warmup)),
       option("protocol", one_of(protocol_names), "when the time of a repetition begins", "common-clock",
              into(o.effort.protocol, protocol_of)),
       of_each_rank(option("comm-timeout", Real{.min = 0.001, .max = 1e7}, "seconds without progress that end the run",
                           std::to_string(usual_deadline.count()), into(o.group.deadline, to_duration))),
       of_each_rank(option("json", Text{"FILE"}, "write the results to FILE", "", into(o.json)))}};
}

OptionGroup algorithm_options(Options& o) {
  return {"Settings of the algorithms",
          {option("segment", Text{"SIZE"}, "longest message of lockstep's own algorithms", "63K",
                  into(o.choice.segment, parse_size)),
           option("in-flight", Whole{1, most}, "blocks in flight at a time in lockstep's own algorithms", "4",
                  into(o.choice.blocks_in_flight)),
           option("radix", Whole{2, most}, "most ranks that exchange in one round of halving- and recursive-doubling",
                  "2", into(o.choice.radix)),
           of_each_rank(
               option("wait", one_of(wait_names()), "what own algorithms do while they wait", "auto", into(o.waiting))),
           option("sockets", one_of(backends::socket_names()),
                  "let own algorithms send small messages between hosts over TCP connections of their own; auto: "
                  "where no host has RDMA and all can connect",
                  "auto", into(o.group.sockets)),
           option("check", Switch{},
                  "let mpi-native and NCCL compare what ranks call first; the others notice differences without it",
                  "no", into(o.group.check))}};
}

OptionGroup tuning_options(Options& o) {
  return {"Selection",
          {{.name = "tuning",
            .domain = Text{"FILE"},
            .help = "selection table for the algorithm auto",
            .default_text = "a cost model",
            .of_each_rank = true,
            .store = into(o.group.tuning)},
           option("tune", Text{"FILE"}, "find what is fastest, and add it to the selection table in FILE", "",
                  into(o.tune)),
           option("explain", Switch{}, "print what is chosen for each size, and why; measure nothing", "no",
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
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
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
    if (std::find(names.begin(), names.end(), word) != names.end()) {
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
  const bool chooses = std::find(o.algorithms.begin(), o.algorithms.end(), automatic) != o.algorithms.end();
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
  options.settings = settings_to_compare(flags);
  check(options);
  options.prediction = prediction_of(flags, options.cluster, options.choice, options.sizes, size_of(options.dtype));
  require(!options.prediction || options.op == CollectiveKind::all_reduce, "--predict supports all_reduce only");
  return options;
}

}  // namespace lockstep::comm_bench
