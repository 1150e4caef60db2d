// SPDX-License-Identifier: Apache-2.0
// This program times all-reduces between simulated ranks; mpi-scripts/bench/simulate.sh runs it under smpirun.
//   simulate-data-… RANKS_PER_NODE BYTES,BYTES,… CONTENDER…
// A contender is one of these: "mpi", which is MPI_Allreduce as smpi/coll-selector implements it; an algorithm of
// lockstep with segment, blocks in flight and radix, such as ring:131072:2:2; or lockstep's choice of algorithm and
// radix for a segment and blocks in flight, such as auto:131072:2. The program prints one line of CSV for each, with
// the choice:
//   contender,ranks,bytes,seconds,wrong,choice
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/mpi_native/message_medium.hpp"
#include "backends/plan/plan_communicator.hpp"
#include "mpi-scripts/bench/smpi/data.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep::smpi {
namespace {

constexpr Bytes unlimited{std::int64_t{1} << 40};  // unit: bytes; nothing is staged

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream list(text);
  for (std::string word; std::getline(list, word, separator);) words.push_back(word);
  return words;
}

/// A way to run an all-reduce.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual void run(const Buffer& buffer) = 0;
  /// Returns the algorithm for a buffer of this size; empty if it is unknown.
  [[nodiscard]] virtual std::string choice(Bytes /*bytes*/) const { return {}; }
  virtual void close() {}
};

/// Runs MPI_Allreduce as smpi/coll-selector implements it.
class Selector : public Contender {
 public:
  /// Uses the communicator once, because SMPI then detects the nodes, which costs an all-gather.
  Selector() {
    int one = 1;
    int sum = 0;
    MPI_Bcast(&one, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }

  /// Runs out of place, because in place SMPI would copy real data.
  void run(const Buffer& in) override {
    const Allocation out = allocate_host(in.bytes());
    MPI_Allreduce(in.data, out.data(), static_cast<int>(in.count.value), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
};

/// Makes a group of all ranks. `World` is not used, because its gathering of host names would dominate at a thousand
/// ranks.
RankSet all_ranks(int ranks_per_node) {
  MPI_Comm own = MPI_COMM_NULL;
  LOCKSTEP_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &own));
  int size = 0;
  LOCKSTEP_MPI(MPI_Comm_size(own, &size));
  auto members = std::make_shared<RankSet::Members>();
  members->hosts.assign(static_cast<std::size_t>(size), "simulated");
  for (int rank = 0; rank < size; ++rank) members->shape.node_of_rank.push_back(rank / ranks_per_node);
  return RankSet(std::make_unique<MpiLink>(own, std::move(members), nullptr));
}

collectives::Selection parse_selection(const std::string& name) {
  const std::vector<std::string> words = split(name, ':');
  collectives::Choice choice{.segment = {std::stoll(words.at(1))}, .blocks_in_flight = std::stoi(words.at(2))};
  if (words.at(0) == "auto") return {.untuned = choice};
  choice.algorithm = collectives::parse_algorithm(words.at(0));
  choice.radix = std::stoi(words.at(3));
  return collectives::forced(choice);
}

/// A medium without other messages. SMPI calls that advance others would let simulated time pass.
class SoleMedium : public backends::MessageMedium {
 public:
  using MessageMedium::MessageMedium;
  [[nodiscard]] bool is_shared() const override { return false; }
};

/// lockstep's executor over messages, as made by make_plan_communicator, except that ranks of a node do not share
/// memory.
class Lockstep : public Contender {
 public:
  Lockstep(const std::string& name, int ranks_per_node) {
    RankSet group = all_ranks(ranks_per_node);
    selection_ = selection_on(group.shape(), parse_selection(name));
    const backends::PlanOptions options{
        .selection = selection_, .node = {.staging = unlimited}, .deadline = std::chrono::hours(24)};
    auto communicator = std::make_unique<backends::PlanCommunicator>(
        backends::PlanCommunicator::Identity{
            .backend = "smpi", .rank = group.rank(), .shape = group.shape(), .hostname = group.host()},
        std::make_unique<SoleMedium>(group, backends::PlanCommunicator::channels(options)), nullptr, progress_,
        options);
    communicator->enlist();
    communicator_ = std::make_unique<Communicator>(std::move(communicator));
    group.close();
  }

  void run(const Buffer& buffer) override { communicator_->all_reduce(buffer, buffer, ReduceOp::sum).wait(); }
  [[nodiscard]] std::string choice(Bytes bytes) const override {
    const collectives::Choice chosen = choose(selection_, CollectiveKind::all_reduce, bytes).choice;
    return std::string(name(chosen.algorithm)) + ':' + radix_text(CollectiveKind::all_reduce, chosen);
  }
  void close() override { communicator_->close(); }

 private:
  collectives::Selection selection_;
  Progress progress_;
  std::unique_ptr<Communicator> communicator_;
};

std::unique_ptr<Contender> make_contender(const std::string& name, int ranks_per_node) {
  if (name == "mpi") return std::make_unique<Selector>();
  return std::make_unique<Lockstep>(name, ranks_per_node);
}

/// The results, in memory that all ranks see: they are coroutines of one process and share its globals (smpirun
/// -no-privatize). Communication would take longer than what is measured.
struct Result {
  int ranks_done = 0;
  double seconds = 0;  ///< time until the last rank is done
  std::int64_t wrong = 0;
};

/// Runs the all-reduce on all ranks at the same instant: measurement k starts at simulated second 1000·(k+1).
/// @return seconds until this rank is done
double time(int measurement, Contender& contender, const Buffer& buffer) {
  const double start = 1000.0 * (measurement + 1);
  const double rest = start - MPI_Wtime();
  timespec pause{};
  pause.tv_sec = static_cast<time_t>(rest);
  pause.tv_nsec = static_cast<long>((rest - std::floor(rest)) * 1e9);
  nanosleep(&pause, nullptr);  // SMPI's nanosleep, in simulated time
  contender.run(buffer);
  return MPI_Wtime() - start;
}

void measure(int measurement, const std::string& name, Contender& contender, Bytes bytes) {
  static std::map<int, Result> results;
  int me = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Allocation memory = allocate_host(bytes);
  const Buffer buffer{memory.data(), {bytes.value / size_of(DType::float32)}, DType::float32};
  fill(buffer, me);
  const double seconds = time(measurement, contender, buffer);
  Result& result = results[measurement];
  result.seconds = std::max(result.seconds, seconds);
  result.wrong += wrong(buffer, ranks);
  if (++result.ranks_done < ranks) return;
  std::printf("%s,%d,%lld,%.9f,%lld,%s\n", name.c_str(), ranks, static_cast<long long>(bytes.value), result.seconds,
              static_cast<long long>(result.wrong), contender.choice(bytes).c_str());
  std::fflush(stdout);
}

void measure_all(int ranks_per_node, const std::vector<std::string>& sizes, const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& name : names) contenders.push_back(make_contender(name, ranks_per_node));
  leave_data_out();
  int measurement = 0;
  for (const std::string& bytes : sizes)
    for (std::size_t i = 0; i < names.size(); ++i)
      measure(measurement++, names[i], *contenders[i], {std::stoll(bytes)});
  for (const auto& contender : contenders) contender->close();
}

}  // namespace
}  // namespace lockstep::smpi

int main(int argc, char** argv) {
  try {
    LOCKSTEP_MPI(MPI_Init(&argc, &argv));
    if (argc < 4) throw std::invalid_argument("usage: simulate-data-… RANKS_PER_NODE BYTES,… CONTENDER…");
    lockstep::smpi::measure_all(std::stoi(argv[1]), lockstep::smpi::split(argv[2], ','), {argv + 3, argv + argc});
    LOCKSTEP_MPI(MPI_Finalize());
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulate: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
