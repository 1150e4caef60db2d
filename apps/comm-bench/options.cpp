// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/options.hpp"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <sstream>

#include "apps/comm-bench/contenders.hpp"
#include "apps/comm-bench/prediction_options.hpp"
#include "apps/common/command_line.hpp"
#include "apps/common/same_options.hpp"
#include "base/nearest.hpp"

namespace lockstep::comm_bench {
namespace {

namespace po = boost::program_options;

constexpr std::array operations = {
    CollectiveKind::all_reduce,     CollectiveKind::broadcast,        CollectiveKind::all_gather,
    CollectiveKind::reduce_scatter, CollectiveKind::reduce,           CollectiveKind::all_to_all,
    CollectiveKind::barrier,        CollectiveKind::gather,           CollectiveKind::scatter,
    CollectiveKind::all_gather_v,   CollectiveKind::reduce_scatter_v, CollectiveKind::all_to_all_v};
constexpr std::array dtypes = {DType::float32, DType::float64, DType::int32,   DType::int64,
                               DType::uint8,   DType::float16, DType::bfloat16};

constexpr std::array devices = {Device::cpu, Device::cuda};
constexpr std::array<std::string_view, 2> buffer_names = {"allocate", "user"};

/// What each rank may have for itself: how it waits, and the files that rank 0 reads or writes.
constexpr std::array<std::string_view, 4> may_differ = {"wait", "timeout", "json", "tuning"};

constexpr const char* operation_list =
    "all_reduce, broadcast, all_gather, reduce_scatter, reduce, all_to_all, barrier, gather, scatter, "
    "all_gather_v, reduce_scatter_v or all_to_all_v";

po::options_description description() {
  po::options_description flags("Options");
  const auto text = [](const char* initial) { return po::value<std::string>()->default_value(initial); };
  const auto number = [](int initial) { return po::value<int>()->default_value(initial); };
  flags.add_options()                                                                                        //
      ("op", text("all_reduce"), operation_list)                                                             //
      ("device", text("cpu"), "cpu, or cuda: buffers in device memory, NCCL's algorithms")                   //
      ("min", text("4"), "smallest buffer in bytes; K, M and G are powers of 1024")                          //
      ("max", text("64M"), "largest buffer")                                                                 //
      ("factor", number(4), "from each size to the next")                                                    //
      ("algorithm", po::value<std::string>(), "comma-separated; all of the operation's unless given")        //
      ("dtype", text("float32"), "float32, float64, int32, int64, uint8, float16 or bfloat16")               //
      ("repetitions", number(0), "for each size and algorithm; 0: as fit into --seconds, from 5 to 1000")    //
      ("seconds", po::value<double>()->default_value(0.5, "0.5"), "aimed at for each size and algorithm")    //
      ("warmup", number(2), "rounds before those that count")                                                //
      ("protocol", text("common-clock"), "when the time of a repetition begins: common-clock or barrier")    //
      ("prepared", po::bool_switch(), "start a prepared operation each time; not of the algorithm mpi")      //
      ("buffers", text("allocate"), "allocate: the communicator's own memory; user: ordinary memory")        //
      ("segment", text("63K"), "longest message of lockstep's own algorithms")                               //
      ("in-flight", number(4), "blocks under way at a time in lockstep's own algorithms")                    //
      ("radix", number(2), "most ranks that exchange in one round of halving- and recursive-doubling")       //
      ("wait", text("auto"), "auto, spin, yield or sleep: what own algorithms do while they wait")           //
      ("timeout", po::value<double>()->default_value(300), "seconds without any progress that end a run")    //
      ("check", po::bool_switch(), "mpi-native and NCCL compare what ranks call first; others look anyway")  //
      ("json", po::value<std::string>(), "write the results to this file")                                   //
      ("tuning", po::value<std::string>(), "selection table that auto goes by; else a cost model")           //
      ("tune", po::value<std::string>(), "find what is fastest and write it to this table")                  //
      ("explain", po::bool_switch(), "say what is chosen for each size, and why; no measuring")              //
      ("version", po::bool_switch(), "print the versions of lockstep and of its libraries")                  //
      ("help", po::bool_switch(), "print this text");
  return flags.add(prediction_flags());
}

/// @throws UsageError with the nearest of `words` unless `word` is one of them
void require_known(std::string_view what, std::string_view word, std::span<const std::string_view> words) {
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
  throw UsageError(unknown(what, word, words));
}

template <typename Enum, std::size_t size>
Enum parse_enum(std::string_view what, const std::string& word, const std::array<Enum, size>& values) {
  std::array<std::string_view, size> names;
  std::transform(values.begin(), values.end(), names.begin(), [](Enum value) { return name(value); });
  require_known(what, word, names);
  return values[static_cast<std::size_t>(std::find(names.begin(), names.end(), word) - names.begin())];
}

std::vector<std::string> parse_algorithms(const po::variable_value& given, CollectiveKind op, Device device) {
  const auto known = contender_names(op, device);
  // NCCL takes one of its own algorithms in a process.
  if (given.empty() && device == Device::cuda) return {std::string(automatic)};
  if (given.empty()) return {known.begin(), known.end()};
  std::vector<std::string> names;
  std::istringstream list(given.as<std::string>() + ',');
  for (std::string word; std::getline(list, word, ',');) {
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

/// What was asked for and has no meaning where NCCL is at work.
void refuse_what_is_of_the_cpu(const po::variables_map& flags) {
  for (const char* flag : {"segment", "in-flight", "radix", "tuning", "tune", "explain", "predict"}) {
    const po::variable_value& given = flags[flag];
    require(given.empty() || given.defaulted(), std::string("--") + flag + " has no meaning with --device cuda");
  }
}

void check(const Options& o) {
  require(o.sizes.min.value <= o.sizes.max.value, "--min (" + std::to_string(o.sizes.min.value) +
                                                      " bytes) is larger than --max (" +
                                                      std::to_string(o.sizes.max.value) + ")");
  require(o.sizes.factor >= 2, "--factor is " + std::to_string(o.sizes.factor) + "; it must be at least 2");
  require(o.repetitions >= 0, "--repetitions is " + std::to_string(o.repetitions) + "; it must not be negative");
  require(o.warmup >= 1, "--warmup is " + std::to_string(o.warmup) + "; it must be at least 1");
  require(o.seconds > 0, "--seconds must be positive");
  require(o.radix >= 2, "--radix is " + std::to_string(o.radix) + "; it must be at least 2");
  require(o.in_flight >= 1, "--in-flight is " + std::to_string(o.in_flight) + "; it must be at least 1");
  require(o.timeout_seconds > 0, "--timeout must be positive");
  const bool chooses = std::find(o.algorithms.begin(), o.algorithms.end(), automatic) != o.algorithms.end();
  require(o.tuning.empty() || chooses, "--tuning is for the algorithm 'auto'; --algorithm does not name it");
  require(o.tune.empty() || (o.tuning.empty() && o.json.empty() && !o.explain),
          "--tune measures for its own purpose; it goes with neither --tuning nor --json nor --explain");
  require(o.device == Device::cpu || o.buffers == Buffers::allocate,
          "--buffers user has no meaning with --device cuda");
  require(!o.explain || o.json.empty(), "--explain measures nothing that --json could hold");
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  const po::variables_map flags = read_command_line(argc, argv, description());
  const auto text = [&](const char* option) { return flags[option].as<std::string>(); };
  Options options;
  options.op = parse_enum("operation", text("op"), operations);
  options.device = parse_enum("device", text("device"), devices);
  if (options.device == Device::cuda) refuse_what_is_of_the_cpu(flags);
  options.algorithms = parse_algorithms(flags["algorithm"], options.op, options.device);
  options.algorithms_given = !flags["algorithm"].empty();
  options.sizes = {parse_size(text("min")), parse_size(text("max")), flags["factor"].as<int>()};
  options.dtype = parse_enum("dtype", text("dtype"), dtypes);
  options.repetitions = flags["repetitions"].as<int>();
  options.seconds = flags["seconds"].as<double>();
  options.warmup = flags["warmup"].as<int>();
  require_known("protocol", text("protocol"), protocol_names);
  options.protocol = text("protocol") == protocol_names[1] ? Protocol::barrier : Protocol::common_clock;
  options.prepared = flags["prepared"].as<bool>();
  require_known("kind of buffers", text("buffers"), buffer_names);
  options.buffers = text("buffers") == "user" ? Buffers::user : Buffers::allocate;
  options.segment = parse_size(text("segment"));
  options.in_flight = flags["in-flight"].as<int>();
  options.radix = flags["radix"].as<int>();
  options.waiting = text("wait");
  require_known("way to wait", options.waiting, wait_names());
  options.timeout_seconds = flags["timeout"].as<double>();
  if (flags.count("json") != 0) options.json = text("json");
  if (flags.count("tuning") != 0) options.tuning = text("tuning");
  if (flags.count("tune") != 0) options.tune = text("tune");
  options.check = flags["check"].as<bool>();
  options.explain = flags["explain"].as<bool>();
  options.version = flags["version"].as<bool>();
  options.help = flags["help"].as<bool>();
  options.settings = settings_to_compare(flags, may_differ);
  check(options);
  const collectives::Choice untuned{.segment = options.segment, .blocks_in_flight = options.in_flight};
  options.prediction = parse_prediction(flags, untuned, options.sizes, size_of(options.dtype));
  require(!options.prediction || options.op == CollectiveKind::all_reduce, "--predict knows all_reduce only");
  return options;
}

std::string help_text() {
  std::ostringstream text;
  text
      << "Usage: [mpirun -np RANKS] comm-bench [options]\n"
         "Times collectives: lockstep's own algorithms beside the MPI library's blocking call (mpi) and its\n"
         "nonblocking one (mpi-native). auto is the own algorithm that is thought best for a size. With --device cuda\n"
         "it times NCCL on device memory: auto is NCCL's own choice, which a process can have or ring or tree.\n\n"
      << description()
      << "\nEvery rank rewrites its whole buffer before each operation and checks the whole result after it. "
         "Operations\n"
         "are in place, except for reduce_scatter and all_to_all; roots are rank 0. With _v the parts' lengths grow\n"
         "with the rank, from 2/(p+1) to 2p/(p+1) of the mean. The algorithms take turns. A\n"
         "repetition's time is its slowest rank's, from a start that ranks of one machine agree on, by their common\n"
         "clock; on several machines a barrier stands in for it. Bandwidths are of the median, as nccl-tests defines "
         "them.\n\n"
         "Exit codes: 0 success, 1 error or wrong result, 2 wrong command line.\n";
  return text.str();
}

}  // namespace lockstep::comm_bench
