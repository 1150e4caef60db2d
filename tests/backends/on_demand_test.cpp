// SPDX-License-Identifier: Apache-2.0
// Tests connections that are made when two ranks first need them, and texts of control channels, which have a
// connection each. The ranks are threads of this process.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/make_agreed.hpp"
#include "backends/plan/socket_medium.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/ranks/connector.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/ranks/rank_link.hpp"
#include "platform/ranks/tcp_control_link.hpp"

namespace lockstep::backends {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Runs ranks as threads.
void as_ranks(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) threads.emplace_back(work, rank);
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::unique_ptr<Connector>> connectors_of(int count) {
  std::vector<std::unique_ptr<Connector>> all;
  for (int rank = 0; rank < count; ++rank) all.push_back(std::make_unique<Connector>());
  return all;
}

/// Introduces ranks that need no connections yet to each other.
void meet(std::vector<std::unique_ptr<Connector>>& connectors, int lanes = 1) {
  std::vector<std::string> addresses;
  for (const auto& one : connectors) addresses.push_back(one->address());
  std::string why_not;
  for (std::size_t rank = 0; rank < connectors.size(); ++rank)
    EXPECT_TRUE(connectors[rank]->connect(static_cast<int>(rank), {}, addresses, 1s, why_not, lanes).empty());
  EXPECT_EQ(why_not, "");
}

/// Advances one rank. @return the ranks to which connections have become complete
std::vector<int> advance(Connector& connector, std::vector<Connection>& kept) {
  std::vector<int> ranks;
  for (Connection& one : connector.advance()) {
    ranks.push_back(one.rank);
    kept.push_back(std::move(one));
  }
  return ranks;
}

/// One of two ranks wants a connection, and the other one only goes on. @return whether they are connected
bool is_made_for(int who) {
  auto connectors = connectors_of(2);
  meet(connectors);
  connectors[static_cast<std::size_t>(who)]->want(1 - who);
  std::vector<std::vector<Connection>> made(2);
  const auto end = Clock::now() + 10s;
  while (Clock::now() < end && (made[0].empty() || made[1].empty()))
    for (std::size_t rank = 0; rank < 2; ++rank) (void)advance(*connectors[rank], made[rank]);
  return made[0].size() == 1 && made[1].size() == 1;
}

TEST(ConnectionsOnDemand, AreMadeForTheRankThatNeedsThem) {
  EXPECT_TRUE(is_made_for(0));
  EXPECT_TRUE(is_made_for(1)) << "the higher rank calls, too, if the lower one does not need it";
}

/// Ranks want connections at random moments, often both at once, and pause between. Each pair must end with one
/// connection for each lane, which carries bytes in both directions.
TEST(ConnectionsOnDemand, AreOneForEachLaneOfAPairInEverySchedule) {
  constexpr int ranks = 5;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const int lanes = 1 + static_cast<int>(seed % 3);
    auto connectors = connectors_of(ranks);
    meet(connectors, lanes);
    std::vector<std::vector<Connection>> made(ranks);
    std::atomic<int> missing{ranks * (ranks - 1) * lanes};
    as_ranks(ranks, [&](int me) {
      Connector& mine = *connectors[static_cast<std::size_t>(me)];
      std::mt19937 random(seed * 100 + static_cast<unsigned>(me));
      std::vector<std::pair<int, int>> others;  // rank, lane
      for (int rank = 0; rank < ranks; ++rank)
        for (int lane = 0; rank != me && lane < lanes; ++lane) others.emplace_back(rank, lane);
      std::shuffle(others.begin(), others.end(), random);
      const auto end = Clock::now() + 30s;
      while (missing > 0 && Clock::now() < end) {
        if (!others.empty() && random() % 3 == 0) {
          mine.want(others.back().first, others.back().second);
          others.pop_back();
        }
        missing -= static_cast<int>(advance(mine, made[static_cast<std::size_t>(me)]).size());
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
      }
      for (const Connection& one : made[static_cast<std::size_t>(me)]) {
        const std::int32_t both = one.lane * 100 + me * 10 + one.rank;
        EXPECT_EQ(::send(one.socket.get(), &both, sizeof both, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof both));
      }
    });
    for (int me = 0; me < ranks; ++me) {
      auto& mine = made[static_cast<std::size_t>(me)];
      ASSERT_EQ(std::ssize(mine), (ranks - 1) * lanes) << "rank " << me << ", seed " << seed;
      for (const Connection& one : mine) {
        std::int32_t both = -1;
        EXPECT_EQ(recv(one.socket.get(), &both, sizeof both, 0), static_cast<ssize_t>(sizeof both));
        EXPECT_EQ(both, one.lane * 100 + one.rank * 10 + me) << "seed " << seed;
      }
    }
  }
}

TEST(ConnectionsOnDemand, SayThatARankIsGoneWhicheverIsLower) {
  for (const int who : {0, 1}) {
    auto connectors = connectors_of(2);
    meet(connectors);
    Connector& left = *connectors[static_cast<std::size_t>(who)];
    connectors[static_cast<std::size_t>(1 - who)].reset();
    left.want(1 - who);
    const auto begin = Clock::now();
    while (left.failure_of(1 - who).empty() && Clock::now() < begin + 5s) EXPECT_TRUE(left.advance().empty());
    EXPECT_NE(left.failure_of(1 - who).find("refused"), std::string::npos) << left.failure_of(1 - who);
    EXPECT_LT(Clock::now() - begin, 2s);
  }
}

MessageTag tag_of(std::uint64_t number) {
  const Buffer buffer{nullptr, {1}, DType::int64};
  return {MessageTag::of_two, number, signature_of({.kind = CollectiveKind::send, .in = buffer, .out = buffer})};
}

std::vector<std::unique_ptr<SocketMedium>> media_of(std::vector<std::unique_ptr<Connector>> connectors) {
  meet(connectors);
  std::vector<std::unique_ptr<SocketMedium>> media;
  const std::vector<std::string> hosts(connectors.size(), "host");
  std::vector<int> ranks(connectors.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  for (std::size_t rank = 0; rank < connectors.size(); ++rank)
    media.push_back(std::make_unique<SocketMedium>(
        nullptr, std::move(connectors[rank]), std::vector<Connection>(),
        SocketMedium::Options{.me = {static_cast<int>(rank)}, .hosts = hosts, .ranks = ranks}));
  return media;
}

bool becomes_complete(SocketMedium& medium, Medium::Ticket ticket, std::chrono::seconds at_most) {
  const auto end = Clock::now() + at_most;
  while (!medium.test(ticket))
    if (Clock::now() > end) return false;
  return true;
}

std::int64_t open_sockets_of_this_process() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::count_if(begin(files), end(files), [](const std::filesystem::directory_entry& file) {
    std::error_code is_closed;
    return std::filesystem::read_symlink(file.path(), is_closed).string().starts_with("socket:");
  });
}

/// Makes sets of threads that take themselves for ranks of several nodes, and runs them.
void on_nodes_of_threads(int ranks, int ranks_per_node, const std::function<void(RankSet&)>& work) {
  std::string folder = (std::filesystem::temp_directory_path() / "lockstep-on-demand-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  as_ranks(ranks, [&](int rank) {
    RankSet set = from_store(make_file_store(folder), {.rank = {rank}, .size = ranks}, 60s);
    auto members = std::make_shared<RankSet::Members>();
    members->hosts = set.hosts();
    for (int other = 0; other < ranks; ++other) members->shape.node_of_rank.push_back(other / ranks_per_node);
    set.link().members = members;
    set = set.dup();
    work(set);
    set.close();
  });
  std::filesystem::remove_all(folder);
}

/// The number of sockets with another end, of which both may be in this process. Listeners close when nobody is left
/// who could call, which takes a different time in each run.
std::int64_t open_connections_of_this_process() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::count_if(begin(files), end(files), [](const std::filesystem::directory_entry& file) {
    sockaddr_storage other{};
    socklen_t length = sizeof other;
    return getpeername(std::stoi(file.path().filename()), reinterpret_cast<sockaddr*>(&other), &length) == 0;
  });
}

/// The blocks of a large message go over all connections of two ranks, which make the same bits as one.
TEST(Lanes, CarryTheBlocksOfLargeMessages) {
  std::vector<std::vector<float>> sums;
  std::vector<std::int64_t> connections;
  for (const int lanes : {1, 3}) {
    const std::int64_t before = open_connections_of_this_process();
    on_nodes_of_threads(2, 1, [&](RankSet& set) {
      Progress progress({.spins_before_yield = 0});
      const auto c =
          plan_on(set, progress,
                  {.selection = collectives::forced(
                       {.algorithm = collectives::Algorithm::ring, .segment = {4096}, .blocks_in_flight = 4}),
                   .connections = lanes});
      std::vector<float> values(100'000);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 0.1F * static_cast<float>(i % 1000) + static_cast<float>(set.rank().value);
      const Buffer buffer{values.data(), {std::ssize(values)}, DType::float32};
      for (int round = 0; round < 5; ++round) c->all_reduce(buffer, buffer, ReduceOp::average).wait();
      if (set.rank() == Rank{0}) {
        sums.push_back(values);
        connections.push_back(open_connections_of_this_process() - before);
      }
      c->barrier().wait();
      c->close();
    });
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(connections, (std::vector<std::int64_t>{2, 6})) << "one connection and three, of which both ends are here";
}

/// Each rank waits for its send before it receives, in a ring in both directions: a rank that waits for one connection
/// accepts another.
TEST(ConnectionsOnDemand, AreAcceptedByRanksThatWaitForOthers) {
  constexpr int ranks = 4;
  for (const int step : {1, ranks - 1}) {
    const auto media = media_of(connectors_of(ranks));
    as_ranks(ranks, [&](int me) {
      SocketMedium& mine = *media[static_cast<std::size_t>(me)];
      const std::int64_t sent = me;
      std::int64_t got = -1;
      EXPECT_TRUE(becomes_complete(mine, mine.send({(me + step) % ranks}, tag_of(1), &sent, {8}), 20s)) << me;
      const int from = (me + ranks - step) % ranks;
      EXPECT_TRUE(becomes_complete(mine, mine.receive({from}, tag_of(1), &got, {8}), 20s)) << me;
      EXPECT_EQ(got, from);
      const Medium::Ticket to_itself = mine.send({me}, tag_of(2), &sent, {8});
      EXPECT_TRUE(becomes_complete(mine, to_itself, 20s));
      EXPECT_TRUE(becomes_complete(mine, mine.receive({me}, tag_of(2), &got, {8}), 20s));
      EXPECT_EQ(got, me);
    });
  }
}

TEST(ConnectionsOnDemand, ThatCannotBeMadeNameTheRank) {
  for (const int who : {0, 1}) {
    auto media = media_of(connectors_of(2));
    media[static_cast<std::size_t>(1 - who)].reset();
    std::int64_t got = 0;
    SocketMedium& left = *media[static_cast<std::size_t>(who)];
    const auto ticket = left.receive({1 - who}, tag_of(1), &got, {8});
    const auto begin = Clock::now();
    try {
      EXPECT_FALSE(becomes_complete(left, ticket, 5s));
      ADD_FAILURE() << "a rank that has ended was awaited";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::transport);
      EXPECT_EQ(error.context().peers, std::vector<int>{1 - who});
      EXPECT_NE(error.message().find("rank " + std::to_string(1 - who) + " on host has ended or cannot be reached: "),
                std::string::npos)
          << error.message();
    }
    EXPECT_LT(Clock::now() - begin, 2s);
  }
}

TEST(ManyRanks, NeedFewConnectionsUntilTheyMeet) {
  constexpr int ranks = 48;  // more than the 32 between which all connections are made at the start
  const std::int64_t before = open_sockets_of_this_process();
  std::barrier all(ranks);
  std::int64_t after_start = 0;
  std::int64_t after_all = 0;
  on_nodes_of_threads(ranks, 1, [&](RankSet& set) {
    Progress progress({.spins_before_yield = 0});
    const auto c = plan_on(set, progress, {});
    all.arrive_and_wait();
    if (set.rank() == Rank{0}) after_start = open_sockets_of_this_process();
    all.arrive_and_wait();
    std::vector<std::int64_t> numbers(ranks, set.rank().value);
    std::vector<std::int64_t> got(ranks);
    c->all_to_all({numbers.data(), {ranks}, DType::int64}, {got.data(), {ranks}, DType::int64}).wait();
    std::vector<std::int64_t> expected(ranks);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(got, expected) << set.rank().value;
    all.arrive_and_wait();
    if (set.rank() == Rank{0}) after_all = open_sockets_of_this_process();
    all.arrive_and_wait();
    c->close();
  });
  // For each rank a listener for connections and one for texts; for some time, the texts of those who close.
  constexpr std::int64_t listeners = 2 * ranks;
  constexpr std::int64_t most_partners = 12;  // at distances of powers of two
  EXPECT_LE(after_start - before, listeners + ranks * most_partners);
  EXPECT_GE(after_all - before, ranks * (ranks - 1));
}

std::chrono::nanoseconds processor_time_of_this_thread() {
  timespec time{};
  EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Ranks that wait for a message, or for the first call of another rank, leave the processor to others.
TEST(RanksThatWaitForConnections, Sleep) {
  on_nodes_of_threads(4, 1, [&](RankSet& set) {
    Progress progress;
    const auto c = plan_on(set, progress, {});
    float value = 1.0F;
    const Buffer buffer{&value, {1}, DType::float32};
    c->all_reduce(buffer, buffer, ReduceOp::sum).wait();
    const auto sleepy = [&](const std::function<void()>& wait) {
      const auto processor = processor_time_of_this_thread();
      const auto begin = Clock::now();
      wait();
      const auto used = processor_time_of_this_thread() - processor;
      EXPECT_GT(Clock::now() - begin, 500ms);
      EXPECT_LT(used, (Clock::now() - begin) / 3) << "rank " << set.rank().value;
    };
    if (set.rank() == Rank{3}) {
      std::this_thread::sleep_for(1s);
      c->send(buffer, {0}).wait();
      c->all_reduce(buffer, buffer, ReduceOp::sum).wait();
    } else if (set.rank() == Rank{0}) {
      sleepy([&] { c->recv(buffer, {3}).wait(); });
      c->all_reduce(buffer, buffer, ReduceOp::sum).wait();
    } else {
      sleepy([&] { c->all_reduce(buffer, buffer, ReduceOp::sum).wait(); });
    }
    c->close();
  });
}

TEST(TextsOfControlChannels, ReachAllRanksAndLeaveNoConnections) {
  constexpr int ranks = 12;
  std::barrier all(ranks);
  const std::int64_t before = open_sockets_of_this_process();
  std::int64_t between = 0;
  on_nodes_of_threads(ranks, 3, [&](RankSet& set) {
    std::vector<int> elsewhere;
    for (int rank = 0; rank < ranks; ++rank)
      if (rank / 3 != set.rank().value / 3) elsewhere.push_back(rank);
    const auto link = make_tcp_control_link(set);
    const std::string long_text(100'000, static_cast<char>('a' + set.rank().value));
    for (int round = 0; round < 3; ++round) {
      link->send(elsewhere, long_text, ControlLink::Delivery::plain);
      link->send(elsewhere, std::to_string(set.rank().value), ControlLink::Delivery::acknowledged);
    }
    std::vector<std::string> got;
    const auto end = Clock::now() + 30s;
    while ((got.size() < 6 * elsewhere.size() || !link->is_acknowledged()) && Clock::now() < end)
      if (auto text = link->receive()) got.push_back(*std::move(text));
    std::vector<std::string> expected;
    for (const int rank : elsewhere) {
      for (int round = 0; round < 3; ++round) {
        expected.emplace_back(100'000, static_cast<char>('a' + rank));
        expected.push_back(std::to_string(rank));
      }
    }
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_TRUE(got == expected) << got.size() << " texts of " << expected.size() << " at rank " << set.rank().value;
    all.arrive_and_wait();
    if (set.rank() == Rank{0}) between = open_sockets_of_this_process();
    all.arrive_and_wait();
    link->close();
  });
  EXPECT_LE(between - before, 2 * ranks);
  EXPECT_LE(open_sockets_of_this_process(), before);
}

TEST(TextsOfControlChannels, OfManyRanksAreTakenOverFewConnections) {
  constexpr int ranks = 80;
  constexpr int texts = 4;
  std::barrier all(ranks);
  on_nodes_of_threads(ranks, 40, [&](RankSet& set) {
    const auto link = make_tcp_control_link(set);
    all.arrive_and_wait();
    if (set.rank() == Rank{0}) {
      all.arrive_and_wait();
      const std::int64_t before = open_sockets_of_this_process();
      std::int64_t most = 0;
      int got = 0;
      for (const auto end = Clock::now() + 30s; got < texts * (ranks - 1) && Clock::now() < end;) {
        if (link->receive()) ++got;
        most = std::max(most, open_sockets_of_this_process() - before);
      }
      EXPECT_EQ(got, texts * (ranks - 1));
      EXPECT_LE(most, 32);
      EXPECT_GT(most, 1) << "nothing was waiting";
    } else {
      for (int i = 0; i < texts; ++i) link->send({0}, "an alarm", ControlLink::Delivery::acknowledged);
      for (const auto end = Clock::now() + 30s; !link->is_acknowledged() && Clock::now() < end;)
        std::this_thread::yield();
      all.arrive_and_wait();
    }
    all.arrive_and_wait();
    link->close();
  });
}

/// What a rank says just before it ends arrives at ranks that listen later.
TEST(TextsOfControlChannels, AreThereAfterTheirRankHasEnded) {
  std::barrier both(2);
  on_nodes_of_threads(2, 1, [&](RankSet& set) {
    auto link = make_tcp_control_link(set);
    if (set.rank() == Rank{0}) {
      link->send({1}, "the last word", ControlLink::Delivery::plain);
      link->push();
      link.reset();
      both.arrive_and_wait();
      return;
    }
    both.arrive_and_wait();
    std::optional<std::string> text;
    const auto end = Clock::now() + 10s;
    while (!text && Clock::now() < end) text = link->receive();
    EXPECT_EQ(text, "the last word");
    const auto begin = Clock::now();
    link->send({0}, "to nobody", ControlLink::Delivery::acknowledged);
    while (!link->is_acknowledged() && Clock::now() < begin + 10s) std::this_thread::yield();
    EXPECT_LT(Clock::now() - begin, 2s) << "a rank that has ended keeps nobody";
  });
}

TEST(PartnersOnNodes, AreOneForEachNodeWhereNodesAreEqual) {
  ClusterShape large;
  for (int rank = 0; rank < 1024; ++rank) large.node_of_rank.push_back(rank / 16);
  for (const int rank : {0, 5, 1023}) EXPECT_EQ(partners_on_nodes(large, {rank}).size(), 63U);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> nodes;
    const int ranks = 1 + static_cast<int>(random() % 30);
    for (int rank = 0; rank < ranks; ++rank) nodes.push_back(static_cast<int>(random() % 5));
    const ClusterShape shape = number_nodes(nodes);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<bool> is_reached(static_cast<std::size_t>(shape.nodes()));
      is_reached[static_cast<std::size_t>(shape.node_of_rank[static_cast<std::size_t>(rank)])] = true;
      for (const int partner : partners_on_nodes(shape, {rank})) {
        const std::vector<int> its = partners_on_nodes(shape, {partner});
        EXPECT_NE(std::find(its.begin(), its.end(), rank), its.end()) << rank << " and " << partner;
        is_reached[static_cast<std::size_t>(shape.node_of_rank[static_cast<std::size_t>(partner)])] = true;
      }
      EXPECT_EQ(std::count(is_reached.begin(), is_reached.end(), false), 0) << "of rank " << rank;
    }
  }
}

}  // namespace
}  // namespace lockstep::backends
