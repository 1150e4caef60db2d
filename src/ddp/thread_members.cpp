// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "backends/local.hpp"
#include "backends/selection_file.hpp"
#include "ddp/members.hpp"
#include "platform/ranks/phase.hpp"

namespace lockstep::ddp {
namespace {

/// Holds what the threads of a group share in their next communicator or split group. All threads create the same
/// objects in the same order, so the first thread that asks creates each object.
class Team {
 public:
  explicit Team(int ranks) : ranks_(ranks) {}
  [[nodiscard]] int ranks() const { return ranks_; }

  std::shared_ptr<backends::LocalGroup> communicator(std::size_t number) {
    const std::scoped_lock lock(mutex_);
    auto& group = groups_[number];
    if (!group) group = backends::make_local_group(ranks_);
    return group;
  }
  std::shared_ptr<Team> part(std::size_t split, int color, int ranks) {
    const std::scoped_lock lock(mutex_);
    auto& part = parts_[{split, color}];
    if (!part) part = std::make_shared<Team>(ranks);
    return part;
  }

 private:
  int ranks_;
  std::mutex mutex_;
  std::map<std::size_t, std::shared_ptr<backends::LocalGroup>> groups_;
  std::map<std::pair<std::size_t, int>, std::shared_ptr<Team>> parts_;
};

/// Returns the options of a group of this many threads. @throws as ProcessGroup::of_threads
backends::CommunicatorOptions options_of(int ranks, const GroupOptions& options) {
  require_deadline(options.deadline);
  require_device(options.device);
  ParsedOptions parsed = parse(options);
  if (parsed.failure) throw Error(*parsed.failure);
  backends::check_compression(parsed.values);
  const collectives::Selection* const wish = backends::selection_of(parsed.values.method);
  if (wish == nullptr) {
    throw Error(ErrorCode::unsupported,
                "the MPI library's collectives are between processes: for threads of one "
                "process, choose another algorithm than mpi");
  }
  collectives::Selection& selection = parsed.values.plan.selection;
  selection = collectives::selection_on(ClusterShape{std::vector<int>(static_cast<std::size_t>(ranks))}, *wish);
  if (!selection.forced && !options.tuning.empty()) selection.table = backends::read_selection_table(options.tuning);
  return parsed.values;
}

class ThreadMembers : public Members {
 public:
  ThreadMembers(std::shared_ptr<Team> team, Rank rank, const GroupOptions& options)
      : Members(options_of(team->ranks(), options)), team_(std::move(team)), rank_(rank) {}

  [[nodiscard]] const std::string& host() const override { return host_; }

  std::unique_ptr<Communicator> make_on_device(Progress& /*progress*/, Use /*use*/) override {
    throw Error(ErrorCode::unsupported,
                "threads of one process are ranks of the device cpu only: for cuda, make the "
                "group of processes");
  }

  std::unique_ptr<Members> split(std::optional<int> color, int key, Communicator& over,
                                 const GroupOptions& options) override {
    const std::size_t number = splits_++;
    std::array<std::int64_t, 2> mine = {color.value_or(-1), key};
    std::vector<std::array<std::int64_t, 2>> all(static_cast<std::size_t>(over.size()));
    over.all_gather(Buffer{mine.data(), {2}, DType::int64}, Buffer{all.data(), {2L * over.size()}, DType::int64},
                    Queue::host(), "split")
        .wait();
    if (!color) return nullptr;
    std::vector<std::pair<std::int64_t, int>> part;  // key, rank
    for (int rank = 0; rank < over.size(); ++rank) {
      const auto& [of_rank, its_key] = all[static_cast<std::size_t>(rank)];
      if (of_rank == *color) part.emplace_back(its_key, rank);
    }
    std::sort(part.begin(), part.end());
    const auto place = std::find(part.begin(), part.end(), std::pair<std::int64_t, int>(key, rank_.value));
    const Rank rank{static_cast<int>(place - part.begin())};
    return std::make_unique<ThreadMembers>(team_->part(number, *color, static_cast<int>(part.size())), rank, options);
  }

  void close() override {}

 private:
  std::unique_ptr<Communicator> make_on_host(Progress& progress, backends::CommunicatorOptions& options) override {
    auto communicator = backends::make_local(team_->communicator(communicators_++), rank_, progress, options.plan);
    if (options.compress) return backends::make_compressed(std::move(communicator), *options.compress, progress);
    return communicator;
  }

  std::shared_ptr<Team> team_;
  Rank rank_;
  std::string host_ = "this process";
  std::size_t communicators_ = 0;
  std::size_t splits_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Members>> members_of_threads(int ranks, const GroupOptions& options) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, "a group needs at least 1 rank, not " + std::to_string(ranks));
  const auto team = std::make_shared<Team>(ranks);
  std::vector<std::unique_ptr<Members>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<ThreadMembers>(team, Rank{rank}, options));
  return all;
}

}  // namespace lockstep::ddp
