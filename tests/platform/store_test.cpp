// SPDX-License-Identifier: Apache-2.0
// Tests key-value stores, and sets of ranks that find each other by one. The ranks are threads.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/text_file.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/ranks/agreement.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/connector.hpp"
#include "platform/ranks/phase.hpp"
#include "platform/ranks/placement_facts.hpp"
#include "platform/ranks/rank_link.hpp"
#include "platform/ranks/socket_exchange.hpp"
#include "platform/ranks/tcp_store.hpp"
#include "platform/ranks/thread_ranks.hpp"
#include "platform/tcp/connected_socket.hpp"
#include "platform/tcp/tcp.hpp"
#include "platform/watchdog/side_channel.hpp"
#include "support/verdict.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::uint16_t free_port() {
  std::uint16_t port = 0;
  (void)open_sockets(SOCK_STREAM, {}, port);
  return port;
}

bool is_listened_on(const std::string& host, std::uint16_t port) {
  const Descriptor tried(socket(AF_INET, SOCK_STREAM, 0));
  const SocketAddress at = socket_address(host, port);
  return connect(tried.get(), at.plain(), at.length) == 0;
}

/// A folder that is removed at the end.
class Folder {
 public:
  Folder() { path_ = mkdtemp(path_.data()); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "lockstep-store-XXXXXX").string();
};

std::string message_of(const std::function<void()>& work, ErrorCode code) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.message();
  }
  return "nothing was thrown";
}

void check_store(KeyValueStore& one, KeyValueStore& other) {
  EXPECT_EQ(one.get("job/1", 0s), std::nullopt);
  const auto begin = Clock::now();
  EXPECT_EQ(one.get("job/1", 100ms), std::nullopt);
  EXPECT_GE(Clock::now() - begin, 100ms);
  one.set("job/1", "first");
  one.set("job.1", "another key");
  EXPECT_EQ(other.get("job/1", 5s), "first");
  other.set("job/1", "second");
  EXPECT_EQ(one.get("job/1", 0s), "second");
  const std::string odd("\0\n% and\xff", 8);
  one.set(odd, odd);
  EXPECT_EQ(other.get(odd, 5s), odd);
  one.set("empty", "");
  EXPECT_EQ(other.get("empty", 5s), "");
  const std::string large(std::size_t{5} << 20, 'x');
  one.set("large", large);
  EXPECT_EQ(other.get("large", 5s), large);
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    other.set("late", "came");
  });
  EXPECT_EQ(one.get("late", 5s), "came");
  late.join();
}

TEST(Stores, KeepValuesInFiles) {
  const Folder folder;
  const auto one = make_file_store(folder.path());
  const auto other = make_file_store(folder.path());
  check_store(*one, *other);
  const std::string file = folder.path() + "/file";
  std::ofstream(file) << "text";
  EXPECT_NE(message_of([&] { (void)make_file_store(file); }, ErrorCode::io).find(file), std::string::npos);
}

TEST(Stores, ServeValuesOverTcp) {
  const std::uint16_t port = free_port();
  const auto server = make_tcp_store("127.0.0.1", port, true);
  const auto client = make_tcp_store("localhost", port, false);
  check_store(*server, *client);
  EXPECT_EQ(make_tcp_store("127.0.0.1", port, false)->get("late", 0s), "came");
  const std::string taken = message_of([&] { (void)make_tcp_store("127.0.0.1", port, true); }, ErrorCode::transport);
  EXPECT_NE(taken.find("port " + std::to_string(port)), std::string::npos) << taken;
}

TEST(Stores, ListenOnlyWhereTheyAreSoughtAfter) {
  for (const std::string host : {"127.0.0.3", "localhost"}) {
    const std::uint16_t port = free_port();
    const auto served = make_tcp_store(host, port, true, 5s);
    const auto client = make_tcp_store(host, port, false, 5s);
    client->set("key", host);
    EXPECT_EQ(served->get("key", 5s), host);
    EXPECT_FALSE(is_listened_on("127.0.0.9", port)) << host;
  }
  std::uint16_t port = 0;
  const auto chosen = serve_store({"127.0.0.4", "127.0.0.5"}, port);
  EXPECT_TRUE(is_listened_on("127.0.0.4", port) && is_listened_on("127.0.0.5", port));
  EXPECT_FALSE(is_listened_on("127.0.0.1", port));
}

TEST(Stores, NameAServerThatIsNotThere) {
  const std::string port = std::to_string(free_port());
  const std::string told =
      message_of([&] { (void)make_tcp_store("127.0.0.1", static_cast<std::uint16_t>(std::stoi(port)), false, 200ms); },
                 ErrorCode::transport);
  EXPECT_NE(told.find("127.0.0.1 port " + port), std::string::npos) << told;
  EXPECT_NE(told.find("refused"), std::string::npos) << told;
}

TEST(Stores, SayThatTheyAreGone) {
  const std::uint16_t port = free_port();
  auto server = make_tcp_store("127.0.0.1", port, true);
  const auto client = make_tcp_store("127.0.0.1", port, false);
  std::thread end([&] { server.reset(); });  // it waits for its clients, 3 s at most
  end.join();
  const std::string told = message_of([&] { (void)client->get("key", 1s); }, ErrorCode::transport);
  EXPECT_EQ(told.find("the store at 127.0.0.1 port " + std::to_string(port)), 0U) << told;
  std::string removed;
  {
    const Folder folder;
    removed = folder.path();
  }
  const auto files = make_file_store(removed);
  std::filesystem::remove_all(removed);
  EXPECT_NE(message_of([&] { files->set("key", "value"); }, ErrorCode::io).find("cannot write " + removed),
            std::string::npos);
}

TEST(Stores, AreNotStoppedByStrangers) {
  const std::uint16_t port = free_port();
  const auto server = make_tcp_store("127.0.0.1", port, true);
  std::vector<Descriptor> strangers;
  const std::string header = std::string("\0\xce\xf7\x85\x3c\1", 6) + std::string(7, '\xff');
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\0half", 3), header, std::string()}) {
    Descriptor stranger = begin_connection("127.0.0.1", port);
    std::this_thread::sleep_for(20ms);
    (void)!::send(stranger.get(), text.data(), text.size(), MSG_NOSIGNAL);
    strangers.push_back(std::move(stranger));
  }
  const auto client = make_tcp_store("127.0.0.1", port, false);
  check_store(*client, *server);
}

/// Connects to a store as one of its clients does, and asks for a value again and again.
Descriptor client_that_asks(std::uint16_t port, const std::string& key, int times) {
  Descriptor client = begin_connection("127.0.0.1", port);
  pollfd entry{client.get(), POLLOUT, 0};
  EXPECT_EQ(poll(&entry, 1, 5000), 1);
  std::string text("\0\xce\xf7\x85\x3c", 5);
  for (int i = 0; i < times; ++i)
    text += std::string("\3") + static_cast<char>(key.size()) + std::string(7, '\0') + key;
  EXPECT_EQ(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  return client;
}

TEST(Stores, AreNotDelayedByClientsThatDoNotRead) {
  const std::uint16_t port = free_port();
  const auto server = make_tcp_store("127.0.0.1", port, true);
  server->set("large", std::string(std::size_t{8} << 20, 'x'));
  EXPECT_TRUE(server->get("large", 5s)) << "it has arrived";
  std::vector<Descriptor> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(client_that_asks(port, "large", 20));
  server->set("key", "value");
  const auto begin = Clock::now();
  EXPECT_EQ(make_tcp_store("127.0.0.1", port, false)->get("key", 5s), "value");
  EXPECT_LT(Clock::now() - begin, 4s) << "a second for each of them";
  // They get all of their answers when they read.
  std::size_t received = 0;
  std::vector<char> piece(std::size_t{1} << 20);
  fcntl(clients.front().get(), F_SETFL, 0);
  while (received < 20 * ((std::size_t{8} << 20) + 8)) {
    const ssize_t count = recv(clients.front().get(), piece.data(), piece.size(), 0);
    ASSERT_GT(count, 0);
    received += static_cast<std::size_t>(count);
  }
}

TEST(Stores, CloseConnectionsThatSayNothing) {
  const std::uint16_t port = free_port();
  const auto server = make_tcp_store("127.0.0.1", port, true);
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 400; ++i) strangers.push_back(begin_connection("127.0.0.1", port));
  const auto client = make_tcp_store("127.0.0.1", port, false);
  client->set("key", "value");
  EXPECT_EQ(server->get("key", 5s), "value");
  for (const Descriptor& stranger : strangers) {
    pollfd entry{stranger.get(), POLLIN | POLLHUP, 0};
    ASSERT_EQ(poll(&entry, 1, 20'000), 1);
  }
  EXPECT_EQ(client->get("key", 5s), "value")
      << "a client may say nothing for as long as it likes after its first words";
}

TEST(Stores, ListenAtChosenInterfacesIfTheyAreKnownByAName) {
  setenv("LOCKSTEP_SOCKET_IFNAME", "=lo", 1);
  const std::uint16_t port = free_port();
  const auto served = make_tcp_store("a-name-of-this-host", port, true, 5s);
  unsetenv("LOCKSTEP_SOCKET_IFNAME");
  EXPECT_TRUE(is_listened_on("127.0.0.1", port));
  EXPECT_FALSE(is_listened_on("127.0.0.9", port)) << "it listens everywhere";
}

/// Runs the ranks as threads, each with a set from the same store. @return what each has thrown
std::vector<std::string> run_ranks(const std::vector<int>& ranks, int size, const std::string& folder,
                                   const std::function<void(RankSet&)>& body, Clock::duration deadline = 20s) {
  std::vector<std::string> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (const int rank : ranks) {
    threads.emplace_back([&, rank] {
      try {
        RankSet set = from_store(make_file_store(folder), {.rank = {rank}, .size = size}, deadline);
        body(set);
        set.close();
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

std::vector<int> first(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return all;
}

TEST(RanksOfAStore, ExchangeTexts) {
  const Folder folder;
  const auto body = [](RankSet& set) {
    EXPECT_EQ(set.size(), 4);
    EXPECT_EQ(set.shape().nodes(), 1);
    const std::string mine = "rank " + std::to_string(set.rank().value);
    EXPECT_EQ(set.exchange(mine), (std::vector<std::string>{"rank 0", "rank 1", "rank 2", "rank 3"}));
    EXPECT_EQ(set.exchange(""), std::vector<std::string>(4));
    EXPECT_EQ(all_gather_numbers(set, -set.rank().value), (std::vector<std::int64_t>{0, -1, -2, -3}));
    EXPECT_EQ(broadcast_string(set, set.rank() == Rank{2} ? "of 2" : "", Rank{2}), "of 2");
    EXPECT_EQ(gather_strings(set, mine, Rank{1}).size(), set.rank() == Rank{1} ? 4U : 0U);
    RankSet copy = set.dup();
    EXPECT_EQ(all_gather_numbers(copy, 1).size(), 4U);
    EXPECT_EQ(all_gather_numbers(set, 2), std::vector<std::int64_t>(4, 2));
    // Ranks 3, 1 and 2, in this order.
    auto part = set.split(set.rank() == Rank{0} ? std::nullopt : std::optional<int>(7), set.rank() == Rank{3} ? 0 : 1);
    EXPECT_EQ(part.has_value(), set.rank() != Rank{0});
    if (part) {
      EXPECT_EQ(part->exchange(mine), (std::vector<std::string>{"rank 3", "rank 1", "rank 2"}));
      EXPECT_EQ(part->host(), set.host());
    }
    barrier(set);
  };
  EXPECT_EQ(run_ranks(first(4), 4, folder.path(), body), std::vector<std::string>(4));
}

TEST(RanksOfAStore, AreNotConfusedByWhatAnEarlierJobHasLeft) {
  const Folder folder;
  const auto body = [](RankSet& set) {
    EXPECT_EQ(all_gather_numbers(set, 5), std::vector<std::int64_t>(set.size(), 5));
  };
  for (const int size : {3, 2, 3, 1}) {
    const std::vector<std::string> none(static_cast<std::size_t>(size));
    EXPECT_EQ(run_ranks(first(size), size, folder.path(), body), none);
  }
}

TEST(RanksOfAStore, NameARankThatDoesNotStart) {
  const Folder folder;
  const auto body = [](RankSet& /*set*/) {};
  const auto without_one = run_ranks({0, 2}, 3, folder.path(), body, 300ms);
  for (const std::size_t rank : {0, 2})
    EXPECT_NE(without_one[rank].find("rank 1 has not joined in starting up within 0.3 s"), std::string::npos)
        << without_one[rank];
  const auto without_zero = run_ranks({1, 2}, 3, folder.path(), body, 300ms);
  for (const std::size_t rank : {1, 2})
    EXPECT_NE(without_zero[rank].find("rank 0 has not joined in starting up"), std::string::npos) << without_zero[rank];
}

TEST(RanksOfAStore, NameARankThatDoesNotComeAndTheTask) {
  for (const int missing : {0, 1, 2}) {
    const Folder folder;
    int causes = 0;
    std::mutex mutex;
    const auto body = [&](RankSet& set) {
      set.set_deadline(400ms);
      const Phase phase(set, "loading the data", Phase::Kind::work);
      if (set.rank() == Rank{missing}) return std::this_thread::sleep_for(1500ms);
      const auto fails = [&] { barrier(set); };
      try {
        fails();
        ADD_FAILURE() << "the barrier ended without a rank";
      } catch (const Error& error) {
        EXPECT_EQ(error.message().find("rank " + std::to_string(missing) + " on " + set.host() +
                                       " has not finished loading the data within 0.4 s"),
                  0U)
            << error.message();
        EXPECT_EQ(error.context().peers, std::vector<int>{missing});
        const std::scoped_lock lock(mutex);
        causes += error.is_consequence() ? 0 : 1;
      }
      EXPECT_EQ(message_of(fails, ErrorCode::timeout).find("rank " + std::to_string(missing)), 0U);  // from now on
    };
    EXPECT_EQ(run_ranks(first(3), 3, folder.path(), body), std::vector<std::string>(3));
    EXPECT_EQ(causes, missing == 0 ? 2 : 1);  // rank 0 finds out for all
  }
}

/// A store that a rank cannot write to any more, from some key on.
class FailingStore : public KeyValueStore {
 public:
  FailingStore(const std::string& folder, std::string end) : store_(make_file_store(folder)), end_(std::move(end)) {}
  void set(const std::string& key, const std::string& value) override {
    if (key.ends_with(end_)) throw Error(ErrorCode::io, "the store is full");
    store_->set(key, value);
  }
  std::optional<std::string> get(const std::string& key, std::chrono::duration<double> at_most) override {
    return store_->get(key, at_most);
  }

 private:
  std::unique_ptr<KeyValueStore> store_;
  std::string end_;
};

TEST(RanksOfAStore, NameARankThatFailsBeforeItsHostIsKnown) {
  const Folder folder;
  std::thread failing([&] {
    const std::string told = message_of(
        [&] {
          (void)from_store(std::make_shared<FailingStore>(folder.path(), "/1/1"), {.rank = {1}, .size = 3}, 500ms);
        },
        ErrorCode::io);
    EXPECT_EQ(told, "the store is full");
  });
  const auto failures = run_ranks(
      {0, 2}, 3, folder.path(), [](RankSet& /*set*/) {}, 500ms);
  failing.join();
  for (const std::size_t rank : {0, 2})
    EXPECT_NE(failures[rank].find("rank 1 has not joined in starting up within 0.5 s"), std::string::npos)
        << failures[rank];
}

TEST(RanksOfAStore, NameWhoBelievesInAnotherSize) {
  const Folder folder;
  std::string of_zero;
  std::thread other([&] {
    const std::string told = message_of(
        [&] { (void)from_store(make_file_store(folder.path()), {.rank = {1}, .size = 3}, 20s); }, ErrorCode::mismatch);
    EXPECT_NE(told.find("a job of 3 ranks, rank 0 to one of 2"), std::string::npos) << told;
  });
  of_zero = message_of([&] { (void)from_store(make_file_store(folder.path()), {.rank = {0}, .size = 2}, 20s); },
                       ErrorCode::mismatch);
  other.join();
  EXPECT_NE(of_zero.find("rank 1 on "), std::string::npos) << of_zero;
  EXPECT_NE(message_of([&] { (void)from_store(make_file_store(folder.path()), {.rank = {2}, .size = 2}); },
                       ErrorCode::invalid_argument)
                .find("rank 2 of 2"),
            std::string::npos);
  EXPECT_NE(message_of([&] { (void)from_store(make_file_store(folder.path()), {.rank = {0}, .size = 1}, 0s); },
                       ErrorCode::invalid_argument)
                .find("deadline"),
            std::string::npos);
}

TEST(RanksOfAStore, CanComeFromAnExchangeOfTheProgram) {
  constexpr int ranks = 3;
  std::vector<std::byte> gathered;
  std::mutex mutex;
  std::barrier all_are_here(ranks);
  const auto exchange = [&](int rank) {
    return [&, rank](std::span<const std::byte> mine, std::span<std::byte> all) {
      {
        const std::scoped_lock lock(mutex);
        gathered.resize(ranks * mine.size());
        std::copy(mine.begin(), mine.end(), gathered.begin() + rank * static_cast<std::ptrdiff_t>(mine.size()));
      }
      all_are_here.arrive_and_wait();
      std::copy(gathered.begin(), gathered.end(), all.begin());
    };
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const RankSet set = from_exchange({rank}, ranks, exchange(rank), 20s);
      EXPECT_EQ(all_gather_numbers(set, rank), (std::vector<std::int64_t>{0, 1, 2}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(
      message_of([&] { (void)from_exchange({0}, 0, exchange(0)); }, ErrorCode::invalid_argument).find("rank 0 of 0"),
      std::string::npos);
}

/// Two nodes of 32 ranks, of which each runs on a core of its own, as `pus` says.
int agreed_ranks_per_cache(const std::function<std::pair<std::string, std::string>(int rank)>& pus_and_cache) {
  constexpr int ranks = 64;
  std::vector<RankSet> sets = from_threads(ranks, 20s);
  ClusterShape shape;
  for (int rank = 0; rank < ranks; ++rank) shape.node_of_rank.push_back(rank / 32);
  std::vector<int> agreed(ranks);
  on_each_thread(ranks, [&](int rank) {
    Agreement agreement;
    const auto [pus, cache] = pus_and_cache(rank);
    agreement.add_fact("processors", pus);
    agreement.add_fact("cache", cache);
    agreement.exchange(sets[static_cast<std::size_t>(rank)]);
    agreed[static_cast<std::size_t>(rank)] = ranks_per_cache(agreement, shape);
  });
  EXPECT_EQ(std::set<int>(agreed.begin(), agreed.end()).size(), 1U);
  return agreed.front();
}

TEST(RanksOfThreads, AgreeByHowManyToDivideTheRanksOfTheirNodes) {
  const auto on_cores = [](int cores_of_a_cache, int last_rank = 64) {
    return [=](int rank) {
      const int core = rank % 32;
      const int first = core / cores_of_a_cache * cores_of_a_cache;
      const std::string cache = std::to_string(first) + "-" + std::to_string(first + cores_of_a_cache - 1);
      return std::pair(std::to_string(rank < last_rank ? core : 0), rank < last_rank ? cache : "");
    };
  };
  EXPECT_EQ(agreed_ranks_per_cache(on_cores(4)), 4);
  EXPECT_EQ(agreed_ranks_per_cache(on_cores(8)), 8);
  EXPECT_EQ(agreed_ranks_per_cache(on_cores(8, 63)), 0) << "two ranks take turns on a core";
  EXPECT_EQ(agreed_ranks_per_cache([&](int rank) { return on_cores(rank < 32 ? 4 : 8)(rank); }), 0)
      << "the nodes differ";
}

TEST(ExchangesOverConnections, GatherTheBytesOfAllRanks) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    std::vector<RankSet> sets = from_threads(ranks, 20s);
    on_each_thread(ranks, [&](int rank) {
      const auto exchange = make_socket_exchange(sets[static_cast<std::size_t>(rank)]);
      std::mt19937 random(static_cast<unsigned>(rank));
      for (int round = 0; round < 50; ++round) {
        const std::int64_t mine = 100 * round + rank;
        exchange->begin(std::as_bytes(std::span(&mine, 1)));
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        std::span<const std::byte> all;
        const auto end = Clock::now() + 20s;
        while (all.empty() && Clock::now() < end) all = exchange->poll();
        std::vector<std::int64_t> got(all.size() / sizeof mine);
        std::memcpy(got.data(), all.data(), all.size());
        std::vector<std::int64_t> expected(static_cast<std::size_t>(ranks));
        std::iota(expected.begin(), expected.end(), 100 * round);
        ASSERT_EQ(got, expected) << "rank " << rank << " of " << ranks << ", round " << round;
      }
      exchange->close();
    });
  }
}

TEST(ExchangesOverConnections, NameARankThatHasEnded) {
  std::vector<RankSet> sets = from_threads(3, 20s);
  on_each_thread(3, [&](int rank) {
    auto exchange = make_socket_exchange(sets[static_cast<std::size_t>(rank)]);
    if (rank == 1) return;
    const std::byte mine{};
    const auto wait = [&] {
      exchange->begin({&mine, 1});
      const auto end = Clock::now() + 20s;
      while (exchange->poll().empty() && Clock::now() < end) std::this_thread::yield();
    };
    const std::string message = message_of(wait, ErrorCode::transport);
    EXPECT_NE(message.find("has ended"), std::string::npos) << message;
  });
}

TEST(RanksOfAStore, StartThoughStrangersFloodIt) {
  const std::uint16_t port = free_port();
  std::atomic<bool> has_ended{false};
  std::atomic<int> batches{0};
  std::thread flood([&] {
    for (; !has_ended; ++batches) {
      std::vector<Descriptor> strangers;
      for (int i = 0; i < 200; ++i) {
        strangers.push_back(begin_connection("127.0.0.1", port));
        if (i % 2 == 0) (void)::send(strangers.back().get(), "garbage", 7, MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(5ms);
    }
  });
  setenv("LOCKSTEP_SECRET", "a secret of the job", 1);
  on_each_thread(2, [&](int rank) {
    while (batches == rank) std::this_thread::sleep_for(1ms);  // rank 1 comes later
    RankSet set = from_store(make_tcp_store("127.0.0.1", port, rank == 0), {.rank = {rank}, .size = 2}, 20s);
    EXPECT_EQ(all_gather_numbers(set, rank), (std::vector<std::int64_t>{0, 1}));
    set.close();
  });
  unsetenv("LOCKSTEP_SECRET");
  has_ended = true;
  flood.join();
}

/// A child of this process that lives as long as this object.
class Child {
 public:
  Child() {
    if (pipe(gate_.data()) != 0) ADD_FAILURE() << "no pipe";
    child_ = fork();
    if (child_ != 0) return;
    char none = 0;
    ::close(gate_[1]);
    (void)!::read(gate_[0], &none, 1);
    _exit(0);
  }
  Child(const Child&) = delete;
  ~Child() {
    ::close(gate_[0]);
    ::close(gate_[1]);
    EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
  }

 private:
  std::array<int, 2> gate_{};
  pid_t child_ = 0;
};

TEST(ConnectedSockets, OfStoresAndWatchdogsAreNotKeptOpenByAChild) {
  const std::uint16_t port = free_port();
  auto server = make_tcp_store("127.0.0.1", port, true);
  const auto client = make_tcp_store("127.0.0.1", port, false);
  client->set("key", "value");
  auto channel = std::make_unique<SideChannel>(true);
  const std::uint16_t port_of_channel = tcp_address_from(channel->address()).tcp;
  ASSERT_TRUE(is_listened_on("127.0.0.1", port_of_channel));
  const Child child;
  std::thread end([&] { server.reset(); });  // it waits for its clients, 3 s at most
  end.join();
  const std::string told = message_of([&] { (void)client->get("key", 1s); }, ErrorCode::transport);
  EXPECT_NE(told.find("has ended"), std::string::npos) << told;
  EXPECT_FALSE(is_listened_on("127.0.0.1", port));
  channel.reset();
  EXPECT_FALSE(is_listened_on("127.0.0.1", port_of_channel));
}

TEST(ConnectedSockets, AreNotKeptOpenByAChild) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor other(ends[1]);
  auto one = std::make_unique<ConnectedSocket>(Descriptor(ends[0]));
  const Child child;
  one.reset();
  char none = 0;
  timeval at_most{.tv_sec = 10, .tv_usec = 0};
  setsockopt(other.get(), SOL_SOCKET, SO_RCVTIMEO, &at_most, sizeof at_most);
  EXPECT_EQ(recv(other.get(), &none, 1, 0), 0);  // the end of the connection, and no time-out
}

TEST(Connections, AreMadeOverIpv6) {
  const Descriptor tried(socket(AF_INET6, SOCK_STREAM, 0));
  const SocketAddress loopback = socket_address("::1", 0);
  if (!tried.open() || bind(tried.get(), loopback.plain(), loopback.length) != 0)
    LOCKSTEP_SKIP(ipv6) << "this system has no IPv6";
  Connector one;
  Connector other;
  std::vector<std::string> addresses;
  for (const Connector* connector : {&one, &other}) {
    TcpAddress address = tcp_address_from(connector->address());
    address.hosts = {"::1"};
    addresses.push_back(to_text(address));
  }
  std::string why_not;
  std::string why_not_there;
  std::vector<Connection> there;
  std::thread thread([&] { there = other.connect(1, {0}, addresses, 5s, why_not_there); });
  const std::vector<Connection> here = one.connect(0, {1}, addresses, 5s, why_not);
  thread.join();
  ASSERT_EQ(here.size(), 1U) << why_not;
  ASSERT_EQ(there.size(), 1U) << why_not_there;
  EXPECT_EQ(host_of_peer(here.front().socket.get()), "::1");

  const std::uint16_t port = free_port();
  const auto server = make_tcp_store("::1", port, true, 5s);
  const auto client = make_tcp_store("::1", port, false, 5s);
  check_store(*client, *server);
}

/// Connects two ranks, of which one may have a secret. @return why they could not, on the lower rank
std::string connect_two(const char* secret_of_one, const char* secret_of_other) {
  const auto with_secret = [](const char* secret) {
    secret == nullptr ? unsetenv("LOCKSTEP_SECRET") : setenv("LOCKSTEP_SECRET", secret, 1);
    auto connector = std::make_unique<Connector>();
    return connector;
  };
  const auto other = with_secret(secret_of_other);
  const auto one = with_secret(secret_of_one);
  const std::vector<std::string> addresses = {one->address(), other->address()};
  std::string why_not;
  std::string why_not_here;
  std::thread thread([&] { (void)other->connect(1, {0}, addresses, 500ms, why_not); });
  const auto made = one->connect(0, {1}, addresses, 500ms, why_not_here);
  thread.join();
  unsetenv("LOCKSTEP_SECRET");
  EXPECT_EQ(made.size(), why_not_here.empty() ? 1U : 0U);
  return why_not_here;
}

TEST(SecretOfAJob, ConnectsThoseWhoHaveIt) {
  EXPECT_EQ(connect_two("a secret of the job", "a secret of the job"), "");
  EXPECT_NE(connect_two("a secret of the job", "another secret of a job"), "");
  const std::string only_one = connect_two("a secret of the job", nullptr);
  EXPECT_NE(only_one.find("only one of the two has LOCKSTEP_SECRET"), std::string::npos) << only_one;
  setenv("LOCKSTEP_SECRET", "a secret of the job", 1);
  EXPECT_EQ(Connector().address().find("secret"), std::string::npos);  // it goes through no store
  setenv("LOCKSTEP_SECRET", "short", 1);
  EXPECT_NE(message_of([] { (void)job_secret(); }, ErrorCode::invalid_argument).find("has 5 characters"),
            std::string::npos);
  unsetenv("LOCKSTEP_SECRET");
}

TEST(SecretOfAJob, MayBeInAFileThatNobodyElseCanRead) {
  const Folder folder;
  const std::string file = folder.path() + "/secret";
  std::ofstream(file) << "the secret in a file\n";
  setenv("LOCKSTEP_SECRET_FILE", file.c_str(), 1);
  std::filesystem::permissions(file, std::filesystem::perms(0640));
  EXPECT_NE(message_of([] { (void)job_secret(); }, ErrorCode::io).find("others may read it"), std::string::npos);
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  EXPECT_EQ(job_secret(), "the_secret_in_a_file");
  unsetenv("LOCKSTEP_SECRET_FILE");
}

TEST(RanksOfAStore, ComeFromTheEnvironment) {
  const std::string port = std::to_string(free_port());
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"RANK", "0"},
                                    {"WORLD_SIZE", "1"},
                                    {"MASTER_PORT", port},
                                    {"MASTER_ADDR", "127.0.0.1"}}) {
    unsetenv(name);
    const std::string told = message_of([] { (void)from_environment(1s); }, ErrorCode::invalid_argument);
    EXPECT_EQ(told.find(std::string(name) + " is not set"), 0U) << told;
    setenv(name, value.c_str(), 1);
  }
  EXPECT_EQ(from_environment(5s).size(), 1);
  setenv("WORLD_SIZE", "two", 1);
  EXPECT_NE(message_of([] { (void)from_environment(1s); }, ErrorCode::invalid_argument).find("WORLD_SIZE=two"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
