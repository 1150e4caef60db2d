// SPDX-License-Identifier: Apache-2.0
#include "mpi-scripts/bench/peers/peer.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

#include "apps/cli/run_app.hpp"
#include "apps/comm-bench/measure.hpp"
#include "apps/comm-bench/report.hpp"

namespace lockstep::peers {
namespace {

using comm_bench::Effort;
using comm_bench::Exercise;
using comm_bench::Measurement;
using comm_bench::SizeRange;
using comm_bench::Subject;

/// Return codes are ignored, because MPI ends the job itself if one of its calls fails.
class WorldRanks : public comm_bench::Ranks {
 public:
  [[nodiscard]] int size() const override { return of(MPI_Comm_size); }
  [[nodiscard]] static Rank me() { return {of(MPI_Comm_rank)}; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void max(std::span<std::int64_t> numbers) override { all_reduce(numbers, MPI_MAX); }
  void sum(std::span<std::int64_t> numbers) override { all_reduce(numbers, MPI_SUM); }
  [[nodiscard]] static int nodes() {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int local_rank = 0;
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    std::int64_t nodes = local_rank == 0 ? 1 : 0;
    all_reduce({&nodes, 1}, MPI_SUM);
    return static_cast<int>(nodes);
  }

 private:
  static int of(int (*number)(MPI_Comm, int*)) {
    int value = 0;
    number(MPI_COMM_WORLD, &value);
    return value;
  }
  static void all_reduce(std::span<std::int64_t> numbers, MPI_Op op) {
    MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_INT64_T, op, MPI_COMM_WORLD);
  }
};

struct Options {
  SizeRange sizes;
  Effort effort;
  std::string json;
};

comm_bench::Protocol parse_protocol(const std::string& name) {
  const auto& names = comm_bench::protocol_names;
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw UsageError("'" + name + "' is no protocol; there are common-clock and barrier");
  return static_cast<comm_bench::Protocol>(found - names.begin());
}

bool parse_yields(const std::string& wait) {
  if (wait != "auto" && wait != "yield") throw UsageError("'" + wait + "' is no way to wait; there are auto and yield");
  return wait == "yield";
}

Options parse(int argc, char** argv) {
  Options o;
  const std::map<std::string, std::function<void(const std::string&)>> flags = {
      {"--min", [&](const std::string& text) { o.sizes.min = comm_bench::parse_size(text); }},
      {"--max", [&](const std::string& text) { o.sizes.max = comm_bench::parse_size(text); }},
      {"--factor", [&](const std::string& text) { o.sizes.factor = std::stoi(text); }},
      {"--seconds", [&](const std::string& text) { o.effort.seconds = std::stod(text); }},
      {"--repetitions", [&](const std::string& text) { o.effort.repetitions = std::stoi(text); }},
      {"--warmup", [&](const std::string& text) { o.effort.warmup = std::stoi(text); }},
      {"--protocol", [&](const std::string& text) { o.effort.protocol = parse_protocol(text); }},
      {"--wait", [&](const std::string& text) { o.effort.yields = parse_yields(text); }},
      {"--json", [&](const std::string& text) { o.json = text; }}};
  for (int i = 1; i < argc; i += 2) {
    const auto flag = flags.find(argv[i]);
    if (flag == flags.end() || i + 1 == argc)
      throw UsageError("'" + std::string(argv[i]) + "' is no flag with a value");
    try {
      flag->second(argv[i + 1]);
    } catch (const std::logic_error&) {  // thrown by std::stoi and std::stod
      throw UsageError("'" + std::string(argv[i + 1]) + "' is no number for " + argv[i]);
    }
  }
  const bool sound = o.sizes.min.value <= o.sizes.max.value && o.sizes.factor >= 2 && o.effort.warmup >= 1;
  if (!sound) throw UsageError("--max must not be below --min, --factor at least 2, --warmup at least 1");
  return o;
}

void print(const std::string& text) {
  if (WorldRanks::me() != Rank{0}) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

std::vector<Measurement> measure_all(Peer& peer, WorldRanks& ranks, const Options& options, const Subject& subject) {
  const std::vector<Count> counts = comm_bench::part_counts(options.sizes, size_of(subject.dtype), 1);
  Exercise::Shape shape{subject.op, subject.dtype, WorldRanks::me(), ranks.size(), counts.back()};
  void* memory = peer.allocate(Exercise::memory_needed(shape));
  const comm_bench::Contenders contenders = peer.contenders();
  std::vector<Measurement> all;
  for (const Count count : counts) {
    shape.part = count;
    const auto exercise = peer.exercise(shape, memory);
    Exercise* const for_all[] = {exercise.get()};
    for (Measurement& m : measure(ranks, contenders, for_all, options.effort)) {
      print(table_line(subject, m));
      all.push_back(std::move(m));
    }
  }
  for (const auto& contender : contenders) contender->close();
  return all;
}

int run(const Options& options, const std::function<std::unique_ptr<Peer>()>& make) {
  WorldRanks ranks;
  const auto peer = make();
  const Subject subject{.op = CollectiveKind::all_reduce, .dtype = DType::float32, .ranks = ranks.size()};
  const std::string head = table_head(subject, peer->title(), WorldRanks::nodes());
  print(head);
  const std::vector<Measurement> all = measure_all(*peer, ranks, options, subject);
  if (WorldRanks::me() == Rank{0} && !options.json.empty()) {
    std::ofstream file(options.json);
    file << to_json(subject, all);
    file.close();
    if (!file) throw std::runtime_error("cannot write '" + options.json + "'");
  }
  const auto wrong = comm_bench::complaint(all);
  print(wrong.value_or(""));
  return wrong ? exit_error : exit_success;
}

}  // namespace

void* Peer::allocate(Bytes bytes) {
  memory_ = allocate_host(bytes);
  return memory_.data();
}

std::unique_ptr<Exercise> Peer::exercise(const Exercise::Shape& shape, void* memory) {
  return std::make_unique<Exercise>(shape, memory);
}

int run_peer(int argc, char** argv, const std::function<std::unique_ptr<Peer>()>& make) {
  Options options;
  try {
    options = parse(argc, argv);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return exit_usage;
  }
  MPI_Init(&argc, &argv);
  int code = exit_error;
  try {
    code = run(options, make);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: rank %d: %s\n", argv[0], WorldRanks::me().value, error.what());
    MPI_Abort(MPI_COMM_WORLD, exit_error);  // because the other ranks may be waiting for this one
  }
  MPI_Finalize();
  return code;
}

}  // namespace lockstep::peers
