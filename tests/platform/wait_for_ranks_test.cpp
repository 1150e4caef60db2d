// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for each other find out who is missing, in any order of their texts and steps: simulated ranks with a
// simulated clock, whose schedules follow from a seed.
#include "platform/ranks/wait_for_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Time = WaitForRanks::Time;
using Delay = std::chrono::milliseconds;

constexpr Delay never{1h};
constexpr Delay deadline{2000};
constexpr Delay grace{500};

/// Texts under way between all ranks; each takes a while, and those between two ranks keep their order.
class Texts {
 public:
  struct Text {
    Time arrival;
    std::string text;
  };
  Texts(int ranks, std::uint64_t seed) : arriving_(static_cast<std::size_t>(ranks)), random_(seed) {}

  void send(int from, int to, const std::string& text, Time now) {
    auto& queue = arriving_[static_cast<std::size_t>(to)][from];
    const Time earliest = queue.empty() ? now : std::max(now, queue.back().arrival);
    queue.push_back({earliest + Delay(random_() % 100), text});
  }
  std::optional<std::string> receive(int to, Time now) {
    for (auto& [from, queue] : arriving_[static_cast<std::size_t>(to)]) {
      if (queue.empty() || queue.front().arrival > now) continue;
      std::string text = queue.front().text;
      queue.erase(queue.begin());
      return text;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::map<int, std::vector<Text>>> arriving_;
  std::mt19937_64 random_;
};

class SimulatedLink final : public ControlLink {
 public:
  SimulatedLink(Texts& texts, int me, const Time& now) : texts_(texts), me_(me), now_(now) {}
  void send(const std::vector<int>& ranks, const std::string& text, Delivery /*delivery*/) override {
    for (const int rank : ranks) texts_.send(me_, rank, text, now_);
  }
  std::optional<std::string> receive() override { return texts_.receive(me_, now_); }
  void close() override {}

 private:
  Texts& texts_;
  int me_;
  const Time& now_;
};

/// What became of a rank's wait.
struct Outcome {
  bool has_come = false;
  bool has_gone_on = false;
  std::optional<Error> error{};
  Delay waited{0};
};

/// A call of all ranks, which completes on a rank soon after the last one has come.
/// @param arrivals  of each rank; a rank that comes `never` does nothing else
/// @param groups    the number of the group in which each rank waits; a call completes in the first rank's group only
std::vector<Outcome> simulate(const std::vector<Delay>& arrivals, std::uint64_t seed,
                              const std::vector<std::uint64_t>& groups = {}) {
  const auto ranks = static_cast<int>(arrivals.size());
  std::mt19937_64 random(seed);
  Texts texts(ranks, seed + 1);
  const Time begin{1h};
  Time now = begin;
  std::vector<int> members(arrivals.size());
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back("host" + std::to_string(rank / 2));
  const Delay last = *std::max_element(arrivals.begin(), arrivals.end());

  struct Simulated {
    std::unique_ptr<SimulatedLink> link{};
    Tasks tasks{};
    std::unique_ptr<WaitForRanks> wait{};
    Time next{};
    Delay completes{};
    Outcome outcome{};
  };
  std::deque<Simulated> all;
  for (int rank = 0; rank < ranks; ++rank) {
    Simulated& one = all.emplace_back();
    one.link = std::make_unique<SimulatedLink>(texts, rank, now);
    one.next = begin + arrivals[static_cast<std::size_t>(rank)];
    one.completes = last + Delay(random() % 20);
  }
  const auto is_over = [&](const Simulated& one) {
    return one.outcome.has_gone_on || one.outcome.error || one.next >= begin + never;
  };
  for (; !std::all_of(all.begin(), all.end(), is_over) && now < begin + 60s; now += 1ms) {
    std::vector<int> order = members;
    std::shuffle(order.begin(), order.end(), random);
    for (const int rank : order) {
      Simulated& one = all[static_cast<std::size_t>(rank)];
      const std::uint64_t group = groups.empty() ? 1 : groups[static_cast<std::size_t>(rank)];
      if (one.outcome.has_gone_on || one.outcome.error || now < one.next) continue;
      one.next = now + Delay(1 + random() % 30);
      const Time came = begin + arrivals[static_cast<std::size_t>(rank)];
      one.outcome.has_come = true;
      one.outcome.waited = std::chrono::duration_cast<Delay>(now - came);
      if (one.wait == nullptr) {
        one.tasks.begin("making group " + std::to_string(group), Tasks::Kind::exchange);
        const WaitForRanks::Waiter waiter{rank, hosts[static_cast<std::size_t>(rank)], one.tasks, hosts};
        one.wait =
            std::make_unique<WaitForRanks>(*one.link, waiter, WaitForRanks::Group{group, members, deadline}, 7, now);
      }
      try {
        one.outcome.has_gone_on = one.wait->advance(now, now >= begin + one.completes && groups.empty());
      } catch (const Error& error) {
        one.outcome.error = error;
      }
    }
  }
  std::vector<Outcome> outcomes;
  for (const Simulated& one : all) outcomes.push_back(one.outcome);
  return outcomes;
}

std::vector<Delay> random_arrivals(std::mt19937_64& random, std::uint64_t most_ranks, std::uint64_t within) {
  std::vector<Delay> arrivals(2 + random() % (most_ranks - 1));
  for (Delay& arrival : arrivals) arrival = Delay(random() % within);
  return arrivals;
}

class WaitForRanksSchedules : public testing::Test {
 protected:
  /// Calls test(seed, random) for many seeds.
  template <typename Test>
  static void for_each_seed(const Test& test) {
    for (std::uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 random(seed);
      test(seed, random);
    }
  }
};

TEST_F(WaitForRanksSchedules, RanksThatComeInTimeGoOn) {
  for_each_seed([](std::uint64_t seed, std::mt19937_64& random) {
    for (const Outcome& one : simulate(random_arrivals(random, 20, 1900), seed)) {
      EXPECT_TRUE(one.has_gone_on);
      EXPECT_LT(one.waited, deadline);
    }
  });
}

TEST_F(WaitForRanksSchedules, ExactlyTheMissingRanksAreNamedOnAllOthers) {
  for_each_seed([](std::uint64_t seed, std::mt19937_64& random) {
    std::vector<Delay> arrivals = random_arrivals(random, 20, 1000);
    for (std::uint64_t left = 1 + random() % (arrivals.size() - 1); left > 0; --left)
      arrivals[random() % arrivals.size()] = never;
    std::vector<int> missing;
    for (std::size_t rank = 0; rank < arrivals.size(); ++rank)
      if (arrivals[rank] == never) missing.push_back(static_cast<int>(rank));
    // Ranks that are no listeners ask the first eight only.
    if (missing.size() >= 8 && missing[7] == 7) missing.resize(8);

    int verdicts = 0;
    for (const Outcome& one : simulate(arrivals, seed)) {
      if (!one.has_come) continue;
      ASSERT_TRUE(one.error);
      EXPECT_EQ(one.error->code(), ErrorCode::timeout);
      EXPECT_EQ(one.error->context().peers, missing) << one.error->message();
      EXPECT_LT(one.waited, deadline + 3 * grace + 300ms);
      if (!one.error->is_consequence()) ++verdicts;
    }
    EXPECT_GE(verdicts, 1);
  });
}

TEST_F(WaitForRanksSchedules, ARankThatComesLateSavesAllOrNone) {
  int saved = 0;
  for_each_seed([&saved](std::uint64_t seed, std::mt19937_64& random) {
    std::vector<Delay> arrivals = random_arrivals(random, 20, 300);
    arrivals[random() % arrivals.size()] = deadline + Delay(random() % 1200);
    const std::vector<Outcome> outcomes = simulate(arrivals, seed);
    const auto has_gone_on = [](const Outcome& one) { return one.has_gone_on; };
    const auto has_failed = [](const Outcome& one) { return one.error.has_value(); };
    const bool are_all_saved = std::all_of(outcomes.begin(), outcomes.end(), has_gone_on);
    EXPECT_TRUE(are_all_saved || std::all_of(outcomes.begin(), outcomes.end(), has_failed));
    saved += are_all_saved ? 1 : 0;
  });
  EXPECT_GT(saved, 10);
  EXPECT_LT(saved, 90);
}

TEST_F(WaitForRanksSchedules, RanksThatWaitInDifferentPlacesSaySo) {
  for_each_seed([](std::uint64_t seed, std::mt19937_64& random) {
    const std::vector<Delay> arrivals = random_arrivals(random, 8, 300);
    std::vector<std::uint64_t> groups(arrivals.size(), 1);
    groups[random() % groups.size()] = 2;
    for (const Outcome& one : simulate(arrivals, seed, groups)) {
      ASSERT_TRUE(one.error);
      const std::string& message = one.error->message();
      EXPECT_EQ(message.find("the ranks wait for each other in different places: "), 0U) << message;
      EXPECT_NE(message.find("while making group 1"), std::string::npos) << message;
      EXPECT_NE(message.find("while making group 2"), std::string::npos) << message;
    }
  });
}

}  // namespace
}  // namespace lockstep
