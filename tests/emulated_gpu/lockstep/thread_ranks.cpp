// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/exchange.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"
#include "lockstep/base/error.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using Bytes8 = std::vector<std::byte>;

/// Exchanges data between threads, one exchange after the other; the n-th exchanges of all ranks belong together.
class Table {
 public:
  explicit Table(int ranks) : ranks_(static_cast<std::size_t>(ranks)), shown_(ranks_) {}

  /// @return the exchange's number
  std::size_t show(int rank, Bytes8 mine) {
    const std::scoped_lock lock(mutex_);
    const std::size_t number = shown_[static_cast<std::size_t>(rank)]++;
    auto& round = rounds_[number];
    round.parts.resize(ranks_);
    round.parts[static_cast<std::size_t>(rank)] = std::move(mine);
    ++round.shown;
    news_.notify_all();
    return number;
  }
  /// Returns nothing until all ranks have contributed.
  std::optional<std::vector<Bytes8>> look(std::size_t number) {
    const std::scoped_lock lock(mutex_);
    const Round& round = rounds_[number];
    return round.shown == ranks_ ? std::optional(round.parts) : std::nullopt;
  }
  std::vector<Bytes8> wait(std::size_t number) {
    std::unique_lock lock(mutex_);
    const auto all_have = [&] { return rounds_[number].shown == ranks_; };
    if (!news_.wait_for(lock, std::chrono::seconds(120), all_have))
      throw Error(ErrorCode::timeout, "another thread has not come to where all meet");
    return rounds_[number].parts;
  }

 private:
  struct Round {
    std::vector<Bytes8> parts;  // by rank
    std::size_t shown = 0;
  };
  std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::map<std::size_t, Round> rounds_;
  std::vector<std::size_t> shown_;  // by rank
};

/// The data that the members of one communicator share.
struct Meeting {
  explicit Meeting(int ranks)
      : table(ranks),
        checks(ranks),
        words(make_node_memory_of_threads(ranks, {.control_bytes = ControlChannel::control_bytes})),
        errors(static_cast<std::size_t>(ranks)) {}
  Table table;
  Table checks;
  std::vector<std::shared_ptr<NodeMemory>> words;
  std::mutex mutex;
  std::vector<std::optional<Error>> errors;  // by rank
};

class Signatures : public Exchange {
 public:
  Signatures(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  void begin(std::span<const std::byte> own) override {
    number_ = meeting_->checks.show(rank_, {own.begin(), own.end()});
    all_.clear();
  }
  std::span<const std::byte> poll() override {
    const auto parts = meeting_->checks.look(number_);
    if (!parts) return {};
    all_.clear();
    for (const Bytes8& part : *parts) all_.insert(all_.end(), part.begin(), part.end());
    return all_;
  }
  void close() override {}

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
  std::size_t number_ = 0;
  Bytes8 all_;
};

/// The data that all threads of a test share.
class Cluster {
 public:
  explicit Cluster(int ranks) : ranks_(ranks), table_(ranks) {}
  [[nodiscard]] int ranks() const { return ranks_; }
  Table& table() { return table_; }
  /// Returns the meeting of the `number`-th communicator.
  std::shared_ptr<Meeting> meeting(std::size_t number, int size) {
    const std::scoped_lock lock(mutex_);
    auto& meeting = meetings_[number];
    if (!meeting) meeting = std::make_shared<Meeting>(size);
    return meeting;
  }

 private:
  int ranks_;
  Table table_;
  std::mutex mutex_;
  std::map<std::size_t, std::shared_ptr<Meeting>> meetings_;
};

class ThreadRanks : public Ranks {
 public:
  ThreadRanks(Cluster& cluster, int rank) : cluster_(cluster), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return cluster_.ranks(); }
  [[nodiscard]] int gpu() const override { return rank_; }
  void meet() override { cluster_.table().wait(cluster_.table().show(rank_, {})); }

  using Ranks::make;
  std::unique_ptr<Communicator> make(const std::vector<int>& members, Progress& progress, backends::NcclOptions options,
                                     Checked checked) override {
    const std::size_t number = made_++;
    const auto place = std::find(members.begin(), members.end(), rank_);
    if (place == members.end()) return nullptr;
    const int rank = static_cast<int>(place - members.begin());
    const int size = static_cast<int>(members.size());
    const auto meeting = cluster_.meeting(number, size);
    std::vector<int> node;
    for (int other = 0; other < size; ++other) node.push_back(other);
    options.hostname = "this process";
    if (checked == Checked::yes) options.check = std::make_shared<Signatures>(meeting, rank);
    options.control = std::make_shared<ControlChannel>(ControlChannel::Member{{rank}, size, options.hostname, node},
                                                       meeting->words[static_cast<std::size_t>(rank)], nullptr);
    return backends::make_nccl({.rank = {rank},
                                .size = size,
                                .gpu = gpu(),
                                .agree = [=](const std::optional<Error>& mine) { agree(*meeting, rank, mine); },
                                .broadcast_from_zero =
                                    [=](Bytes8 id) {
                                      Table& table = meeting->table;
                                      return table.wait(table.show(rank, std::move(id))).front();
                                    }},
                               progress, options);
  }

 private:
  static void agree(Meeting& meeting, int rank, const std::optional<Error>& mine) {
    {
      const std::scoped_lock lock(meeting.mutex);
      meeting.errors[static_cast<std::size_t>(rank)] = mine;
    }
    meeting.table.wait(meeting.table.show(rank, {}));
    const std::scoped_lock lock(meeting.mutex);
    for (const auto& error : meeting.errors)
      if (error) throw Error(error->on_every_rank());
  }

  Cluster& cluster_;
  int rank_;
  std::size_t made_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> Ranks::make(Progress& progress, const backends::NcclOptions& options, Checked checked) {
  std::vector<int> all;
  for (int other = 0; other < size(); ++other) all.push_back(other);
  return make(all, progress, options, checked);
}

void on_threads(int ranks, const std::function<void(Ranks&)>& body) {
  Cluster cluster(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks me(cluster, rank);
      try {
        body(me);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int number_of_process(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoi(text);
}

backends::NcclAlgorithm algorithm_of_process() {
  const char* text = std::getenv("LOCKSTEP_NCCL_ALGORITHM");
  const std::string name = text == nullptr ? "auto" : text;
  for (const auto algorithm : {backends::NcclAlgorithm::ring, backends::NcclAlgorithm::tree})
    if (name == backends::name(algorithm)) return algorithm;
  return backends::NcclAlgorithm::automatic;
}

}  // namespace lockstep::on_emulated_gpus
