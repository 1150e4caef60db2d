// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/tune.hpp"

#include <algorithm>
#include <cmath>

#include "apps/comm-bench/contenders.hpp"
#include "apps/comm-bench/workplaces.hpp"
#include "backends/make_communicator.hpp"
#include "backends/selection_file.hpp"
#include "base/text_file.hpp"
#include "base/wrapped.hpp"
#include "collectives/schedule/blocks.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::comm_bench {

using collectives::Algorithm;
using collectives::Choice;
using collectives::SelectionTable;
using collectives::ShapeSummary;
using collectives::TableEntry;

namespace {

/// A round of tuning: each contender's share of the options' seconds, and its warm-up and repetitions.
struct Round {
  double share;
  int max_warmup;
  int min_repetitions;
};
constexpr Round long_round{0.5, 2, 5};
constexpr Round short_round{0.1, 1, 2};  // for many contenders, to find those worth a closer look
constexpr Round final_round{1, 2, 5};

/// The number of warm-up rounds for small buffers, until a new communicator has touched its memory and adapted its
/// waiting. For large buffers, these rounds would take long and have no visible effect.
constexpr int settling_rounds = 20;
constexpr Bytes small{1 << 20};

class Tuner {
 public:
  Tuner(const World& world, const Options& options, const Exercise::Shape& shape)
      : world_(&world),
        options_(&options),
        shape_(shape),
        ranks_(world.group()),
        model_(backends::agreed_selection(world.group())),
        cluster_(model_.shape) {}

  /// Returns the best choice at this size, with its median.
  Timed best_at(Count part) {
    shape_.part = part;
    const CollectiveKind kind = options_->op;
    std::vector<Choice> usual;
    for (const auto& priced : priced_candidates(model_, kind, bytes(), collectives::SelectedBy::tuning))
      usual.push_back(priced.choice);
    std::vector<Choice> settings;
    for (const Timed& t : fastest(measure_round(usual, long_round), 2, 1.5)) {
      const auto more = settings_of(kind, t.choice, cluster_, bytes());
      settings.insert(settings.end(), more.begin(), more.end());
    }
    std::vector<Choice> finalists;
    for (const Timed& t : fastest(measure_round(settings, short_round), 4, 1.5)) finalists.push_back(t.choice);
    const std::vector<Timed> final = measure_round(finalists, final_round);
    preferred_ = best_of(final, preferred_);
    for (const Timed& t : final) {
      if (t.choice == preferred_) return t;
    }
    return final.front();
  }
  /// Returns the size in bytes that a selection uses.
  [[nodiscard]] Bytes bytes() const { return bytes_of(shape_.part, shape_.dtype); }
  [[nodiscard]] const ShapeSummary& cluster() const { return cluster_; }

 private:
  std::vector<Timed> measure_round(std::span<const Choice> choices, const Round& round) {
    Contenders contenders;
    for (const Choice& choice : choices) {
      contenders.push_back(make_contender("tuning", *world_, collectives::forced(choice), *options_));
    }
    const int settling = bytes() <= small ? settling_rounds : 0;
    const Effort effort{.warmup = settling + std::min(round.max_warmup, options_->effort.warmup),
                        .repetitions = options_->effort.repetitions,
                        .seconds = round.share * options_->effort.seconds,
                        .min_repetitions = round.min_repetitions};
    std::optional<Workplaces> workplaces(std::in_place, contenders, shape_, options_->buffers);
    const std::vector<Measurement> measured = measure(ranks_, contenders, workplaces->exercises(shape_), effort);
    workplaces.reset();
    for (const auto& contender : contenders) contender->close();
    std::vector<Timed> timed;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (measured[i].wrong > 0) refuse(choices[i]);
      timed.push_back({choices[i], measured[i].median_seconds});
    }
    return timed;
  }
  [[noreturn]] void refuse(const Choice& choice) const {
    throw Error(ErrorCode::mismatch, std::string(algorithm_name(options_->op, choice.algorithm)) +
                                         " with segments of " + std::to_string(choice.segment.value) + " bytes and " +
                                         std::to_string(choice.blocks_in_flight) + " blocks in flight, radix " +
                                         radix_text(options_->op, choice) + ", gives wrong results at " +
                                         std::to_string(bytes().value) + " bytes; no table is written")
        .on_every_rank();
  }

  const World* world_;
  const Options* options_;
  Exercise::Shape shape_;
  GroupRanks ranks_;
  collectives::Selection model_;  ///< gives the order in which contenders start, which decides between equal ones
  ShapeSummary cluster_;
  Choice preferred_;
};

std::string head(CollectiveKind kind, const ShapeSummary& cluster) {
  return "# tuning " + std::string(name(kind)) + " on " + describe(cluster) + '\n' +
         format_text("# %10s  %-31s %5s %11s %6s %11s\n", "size (B)", "algorithm", "radix", "segment (B)", "blocks",
                     "median (us)");
}

std::string line(CollectiveKind kind, Bytes bytes, const Timed& best) {
  return format_text("%12lld  %-31s %5s %11lld %6d %11.2f\n", static_cast<long long>(bytes.value),
                     std::string(algorithm_name(kind, best.choice.algorithm)).c_str(),
                     radix_text(kind, best.choice).c_str(), static_cast<long long>(best.choice.segment.value),
                     best.choice.blocks_in_flight, best.seconds * 1e6);
}

constexpr std::array<std::int64_t, 4> segments = {32 << 10, 63 << 10, 128 << 10, 512 << 10};
constexpr std::array numbers_in_flight = {2, 4, 8};
constexpr double within_noise = 1.02;

/// Returns what distinguishes the runs of a choice at a size: segment and blocks in flight, if there is more than one
/// block.
std::pair<std::int64_t, std::int64_t> run_of(CollectiveKind kind, const Choice& choice, int ranks, Bytes bytes) {
  if (choice.algorithm == Algorithm::shared_memory) return {0, choice.blocks_in_flight};  // it sends no segments
  const std::int64_t block = collectives::block_count(kind, choice.algorithm, ranks, {choice.segment.value}).value;
  const std::int64_t blocks = kind == CollectiveKind::barrier ? 1 : (bytes.value + block - 1) / block;
  if (blocks <= 1) return {0, 1};
  return {choice.segment.value, std::min<std::int64_t>(choice.blocks_in_flight, blocks)};
}

Bytes middle(Bytes a, Bytes b) {
  return {std::llround(std::sqrt(static_cast<double>(a.value) * static_cast<double>(b.value)))};
}

}  // namespace

void tune(const World& world, const Options& options, const std::function<void(const std::string&)>& print) {
  const auto parsed = [&](const std::optional<std::string>& text) {
    return text ? backends::parse_selection_table(*text, options.tune) : SelectionTable();
  };
  std::optional<SharedTextFile> file;  // on rank 0 only
  const Phase phase(world.group(), "reading or writing '" + options.tune + "'", Phase::Kind::work);
  agree_on_rank_zero(world.group(), [&] {
    file.emplace(options.tune);
    (void)parsed(file->read());  // fails before anything is measured if the file is not a table
  });
  const std::vector<Count> counts = counts_of(options, world.size());
  const Exercise::Shape shape{options.op, options.dtype, world.rank(), world.size(), counts.back()};
  require_memory(world, Exercise::memory_needed(shape));
  Tuner tuner(world, options, shape);
  const CollectiveKind kind = options.op;
  print(head(kind, tuner.cluster()));
  std::vector<Finding> findings;
  for (const Count count : counts) {
    const Timed best = tuner.best_at(count);
    print(line(kind, tuner.bytes(), best));
    findings.push_back({tuner.bytes(), best.choice});
  }
  agree_on_rank_zero(world.group(), [&] {
    file->update([&](const std::optional<std::string>& present) {  // keeps what another job has added meanwhile
      SelectionTable table = parsed(present);
      table.erase(kind, tuner.cluster());
      for (const auto& entry : entries_of(kind, tuner.cluster(), findings)) table.add(entry);
      return backends::format_selection_table(table);
    });
  });
  print("# written to " + options.tune + '\n');
}

std::vector<Choice> settings_of(CollectiveKind kind, const Choice& choice, const collectives::ShapeSummary& shape,
                                Bytes bytes) {
  std::vector<Choice> all = {with_useful_blocks({.algorithm = choice.algorithm, .radix = choice.radix}, shape)};
  for (const std::int64_t segment : segments) {
    for (const int in_flight : numbers_in_flight)
      all.push_back(with_useful_blocks({choice.algorithm, {segment}, in_flight, choice.radix}, shape));
  }
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  const auto known = [&](const Choice& one) { return !seen.insert(run_of(kind, one, shape.ranks, bytes)).second; };
  std::vector<Choice> distinct;
  std::remove_copy_if(all.begin(), all.end(), std::back_inserter(distinct), known);
  return distinct;
}

std::vector<Timed> fastest(std::vector<Timed> timed, std::size_t most, double factor) {
  std::ranges::stable_sort(timed, [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  const auto too_slow = [&](const Timed& t) { return t.seconds > factor * timed.front().seconds; };
  const auto end = std::ranges::find_if(timed, too_slow);
  const auto kept = std::min(most, static_cast<std::size_t>(end - timed.begin()));
  timed.erase(timed.begin() + static_cast<std::ptrdiff_t>(kept), timed.end());
  return timed;
}

Choice best_of(std::vector<Timed> timed, const Choice& preferred) {
  const std::size_t all = timed.size();
  timed = fastest(std::move(timed), all, within_noise);
  const auto among = std::ranges::any_of(timed, [&](const Timed& t) { return t.choice == preferred; });
  return among ? preferred : timed.front().choice;
}

std::vector<TableEntry> entries_of(CollectiveKind kind, const ShapeSummary& shape, std::span<const Finding> findings) {
  std::vector<TableEntry> entries;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Bytes below = i + 1 < findings.size() ? middle(findings[i].bytes, findings[i + 1].bytes) : TableEntry::no_end;
    if (!entries.empty() && entries.back().choice == findings[i].choice) {
      entries.back().below = below;
    } else {
      const Bytes from = entries.empty() ? Bytes{0} : entries.back().below;
      entries.push_back({kind, shape, from, below, findings[i].choice});
    }
  }
  return entries;
}

}  // namespace lockstep::comm_bench
