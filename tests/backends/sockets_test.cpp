// SPDX-License-Identifier: Apache-2.0
// Tests the connections between ranks: who may connect, what happens where they cannot, and that messages use
// them. The ranks are on one host, and some tests take them for ranks of several.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/make_agreed.hpp"
#include "backends/no_more_files.hpp"
#include "backends/on_nodes.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/connector.hpp"
#include "support/verdict.hpp"

namespace {
int sends_of_mpi = 0;
}

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm communicator,
                         MPI_Request* request) {
  ++sends_of_mpi;
  return PMPI_Isend(data, count, type, peer, tag, communicator, request);
}

namespace lockstep::backends {
namespace {

using namespace std::chrono_literals;
using collectives::Algorithm;

/// Connects to the port of an address without knowing how to go on.
Descriptor stranger(const std::string& address) {
  std::istringstream text(address);
  std::string secret;
  std::uint16_t port = 0;
  text >> secret >> port;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(connection.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  return connection;
}

void write_to(const Descriptor& connection, const std::string& text) {
  EXPECT_EQ(::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

/// Connects ranks that are threads, each with all others. @return a text for each rank: why it could not
std::vector<std::string> connect_all(std::vector<Connector>& connectors, std::vector<std::vector<Connection>>& made,
                                     const std::vector<std::string>& addresses, std::chrono::milliseconds at_most) {
  std::vector<std::string> why_not(connectors.size());
  std::vector<std::thread> threads;
  made.resize(connectors.size());
  for (std::size_t rank = 0; rank < connectors.size(); ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<int> partners;
      for (std::size_t other = 0; other < addresses.size(); ++other)
        if (other != rank) partners.push_back(static_cast<int>(other));
      made[rank] = connectors[rank].connect(static_cast<int>(rank), partners, addresses, at_most, why_not[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return why_not;
}

std::vector<std::string> addresses_of(const std::vector<Connector>& connectors) {
  std::vector<std::string> addresses;
  for (const Connector& connector : connectors) addresses.push_back(connector.address());
  return addresses;
}

TEST(Connections, ReachTheRightRanksAmongStrangers) {
  std::vector<Connector> connectors(4);
  const std::vector<std::string> addresses = addresses_of(connectors);
  std::vector<Descriptor> strangers;
  for (const std::string& address : addresses) {
    strangers.push_back(stranger(address));  // says nothing
    strangers.push_back(stranger(address));
    write_to(strangers.back(), "GET / HTTP/1.1\r\nHost: lockstep\r\n\r\n, and some more than a greeting has");
    strangers.push_back(stranger(address));  // claims to be rank 0, with a wrong secret
    write_to(strangers.back(), std::string(40, '\0'));
    strangers.push_back(stranger(address));
    write_to(strangers.back(), "half");
    (void)stranger(address);  // closes at once
  }
  std::vector<std::vector<Connection>> made;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(connect_all(connectors, made, addresses, 20s), std::vector<std::string>(4));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "they wait only for what is missing";
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(made[static_cast<std::size_t>(rank)].size(), 3U);
    for (const Connection& connection : made[static_cast<std::size_t>(rank)]) {
      const std::int32_t both = rank * 10 + connection.rank;
      EXPECT_EQ(::send(connection.socket.get(), &both, sizeof both, 0), static_cast<ssize_t>(sizeof both));
    }
  }
  for (int rank = 0; rank < 4; ++rank) {
    for (const Connection& connection : made[static_cast<std::size_t>(rank)]) {
      std::int32_t both = -1;
      EXPECT_EQ(recv(connection.socket.get(), &both, sizeof both, 0), static_cast<ssize_t>(sizeof both));
      EXPECT_EQ(both, connection.rank * 10 + rank);
    }
  }
}

TEST(Connections, ManyStrangersLeaveFilesForPartners) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{std::min<rlim_t>(before.rlim_max, 720), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Connector> connectors(2);
  const std::vector<std::string> addresses = addresses_of(connectors);
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 400; ++i) strangers.push_back(stranger(addresses.back()));
  std::vector<std::vector<Connection>> made;
  EXPECT_EQ(connect_all(connectors, made, addresses, 3s), std::vector<std::string>(2));
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Connections, ThatCannotBeMadeAreExplainedInTime) {
  std::vector<Connector> connectors(2);
  std::vector<std::string> addresses = addresses_of(connectors);
  addresses.push_back(Connector().address());  // it has ended, so that nobody listens
  std::vector<std::vector<Connection>> made;
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<std::string> why_not = connect_all(connectors, made, addresses, 300ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  for (const std::string& why : why_not) EXPECT_EQ(why.find("rank 2, "), 0U) << why;
  EXPECT_NE(why_not[0].find("Connection refused"), std::string::npos) << why_not[0];
  EXPECT_EQ(made[0].size(), 1U);
}

/// All-reduces numbers whose sums are exact. @return the number of wrong elements
std::int64_t wrong_sums_of(Communicator& c, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<float>(c.rank().value + i % 1000);
  const Buffer buffer{values.data(), {count}, DType::float32};
  c.all_reduce(buffer, buffer, ReduceOp::sum).wait();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t sum = c.size() * (c.size() - 1) / 2 + c.size() * (i % 1000);
    wrong += values[static_cast<std::size_t>(i)] != static_cast<float>(sum) ? 1 : 0;
  }
  return wrong;
}

TEST(Sockets, CarryMessagesOfAllSizesBetweenHostsWithoutMpi) {
  World world;
  RankSet group = on_nodes(world, 1);
  Progress progress({.spins_before_yield = 0});
  std::vector<std::string> said;
  const auto notice = [&said](std::string_view text) { said.emplace_back(text); };
  const auto c = plan_on(group, progress,
                         {.selection = collectives::forced({.algorithm = Algorithm::recursive_doubling}),
                          .sockets = has_rdma() ? Sockets::yes : Sockets::automatic,
                          .notice = notice});
  EXPECT_EQ(wrong_sums_of(*c, 1), 0);
  const int before = sends_of_mpi;
  for (const std::int64_t count : {1, 2, 100, 1000, 4096, 4097, 1'000'000}) EXPECT_EQ(wrong_sums_of(*c, count), 0);
  EXPECT_EQ(sends_of_mpi, before);
  EXPECT_EQ(said, std::vector<std::string>{});
  c->close();
  group.close();
  world.close();
}

TEST(Sockets, AreNotUsedOnOneHostOrIfTheyAreRefused) {
  World world;
  RankSet group = on_nodes(world, 1);
  const PlanOptions demanded{.sockets = Sockets::yes};
  EXPECT_EQ(sockets_on(world.shape(), {}, false), Sockets::no);
  EXPECT_EQ(sockets_on(world.shape(), demanded, false), Sockets::no);
  EXPECT_EQ(sockets_on(group.shape(), {}, true), Sockets::no);
  EXPECT_EQ(sockets_on(group.shape(), {.checksum = true}, true), Sockets::automatic);
  EXPECT_EQ(sockets_on(group.shape(), {}, false), Sockets::automatic);
  EXPECT_EQ(sockets_on(group.shape(), demanded, true), Sockets::yes);
  Connector connector;
  EXPECT_TRUE(connect_hosts(group, connector, demanded));
  group.close();
  world.close();
}

TEST(Sockets, OfTwoCommunicatorsDoNotMix) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const PlanOptions options{.selection = collectives::forced({.algorithm = Algorithm::ring, .segment = {1024}}),
                            .sockets = Sockets::everywhere};
  const auto first = plan_on(world.group(), progress, options);
  const auto second = plan_on(world.group(), progress, options);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> a(3000, 1.0F);
    std::vector<float> b(3000, 2.0F);
    const Buffer buffer_a{a.data(), {3000}, DType::float32};
    const Buffer buffer_b{b.data(), {3000}, DType::float32};
    const bool even = world.rank().value % 2 == 0;
    Work work_a = first->all_reduce(buffer_a, buffer_a, ReduceOp::sum);
    Work work_b = second->all_reduce(buffer_b, buffer_b, ReduceOp::sum);
    (even ? work_a : work_b).wait();
    (even ? work_b : work_a).wait();
    EXPECT_EQ(a, std::vector<float>(3000, static_cast<float>(world.size())));
    EXPECT_EQ(b, std::vector<float>(3000, 2.0F * static_cast<float>(world.size())));
  }
  first->close();
  second->close();
  world.close();
}

/// A rank that runs ahead is held back by TCP, or its messages are put aside; nothing is lost.
TEST(Sockets, HoldManyMessagesThatAreEarly) {
  World world;
  Progress progress({.spins_before_yield = 0});
  const auto c = plan_on(world.group(), progress, {.sockets = Sockets::everywhere});
  constexpr std::int64_t messages = 5000;
  std::vector<std::int64_t> data(static_cast<std::size_t>(messages));
  const Buffer buffer{data.data(), {messages}, DType::int64};
  if (world.rank() == Rank{0}) {
    std::iota(data.begin(), data.end(), 0);
    std::vector<Work> works;
    for (std::int64_t i = 0; i < messages; ++i) works.push_back(c->send(slice(buffer, {i}, {1}), {1}));
    for (Work& work : works) work.wait();
  } else if (world.rank() == Rank{1}) {
    std::this_thread::sleep_for(100ms);
    for (std::int64_t i = 0; i < messages; ++i) c->recv(slice(buffer, {i}, {1}), {0}).wait();
    std::vector<std::int64_t> expected(data.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(data, expected);
  }
  c->barrier().wait();
  c->close();
  world.close();
}

TEST(Sockets, WhereTheyCannotBeMadeThatIsSaidOnceAndMessagesGoByMpi) {
#if defined(__SANITIZE_ADDRESS__) && defined(__clang__)
  LOCKSTEP_SKIP(descriptors) << "clang's check of an object's type reads the object through a pipe";
#endif
  World world;
  RankSet group = on_nodes(world, 1);
  if (has_rdma()) GTEST_SKIP() << "there is RDMA, so that sockets are not tried";
  barrier(world.group());
  std::vector<std::string> said;
  const auto notice = [&said](std::string_view text) { said.emplace_back(text); };
  auto limit = world.rank() == world.size() - 1 ? std::make_unique<NoMoreFiles>() : nullptr;
  Progress progress({.spins_before_yield = 0});
  CommunicatorOptions options{.plan = {.notice = notice}};
  agree_on(group, options);
  const auto first = make_communicator(group, progress, options);
  limit.reset();
  EXPECT_EQ(options.plan.sockets, Sockets::no);
  ASSERT_EQ(said.size(), world.rank() == Rank{0} ? 1U : 0U);
  if (!said.empty()) {
    EXPECT_NE(said[0].find("go by MPI"), std::string::npos) << said[0];
    EXPECT_NE(said[0].find("rank " + std::to_string(world.size() - 1)), std::string::npos) << said[0];
  }
  const auto second = make_communicator(group, progress, options);
  for (const auto& c : {first.get(), second.get()}) EXPECT_EQ(wrong_sums_of(*c, 100), 0);
  EXPECT_EQ(said.size(), world.rank() == Rank{0} ? 1U : 0U);
  second->close();
  first->close();
  group.close();
  world.close();
}

TEST(Sockets, ThatAreDemandedAndCannotBeMadeAreAnErrorOnEveryRank) {
  World world;
  world.set_deadline(4s);
  barrier(world.group());
  auto limit = world.rank() == world.size() - 1 ? std::make_unique<NoMoreFiles>() : nullptr;
  std::optional<Error> error;
  const auto begin = std::chrono::steady_clock::now();
  try {
    Connector connector;
    (void)connect_hosts(world.group(), connector, {.sockets = Sockets::everywhere});
  } catch (const Error& thrown) {
    error = thrown;
  }
  limit.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2500ms)
      << "ranks that are connected wait for a quarter of their deadline";
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::unsupported);
  EXPECT_TRUE(error->is_on_every_rank());
  EXPECT_NE(error->message().find("cannot be connected by sockets (rank "), std::string::npos) << error->what();
  world.close();
}

}  // namespace
}  // namespace lockstep::backends
