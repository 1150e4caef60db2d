// SPDX-License-Identifier: Apache-2.0
// Tests messages over sockets without MPI: both ends are in this process, and the other medium only notes what it gets.
#include "backends/plan/socket_medium.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/plan/options.hpp"
#include "backends/plan/socket_partners.hpp"
#include "comm/call_signature.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

using namespace std::chrono_literals;

/// Counts what it is given.
class NotingMedium : public Medium {
 public:
  struct Notes {
    int sends = 0;
    int receives = 0;
    int helps = 0;
    bool is_closed = false;
  };
  explicit NotingMedium(Notes& notes) : notes_(&notes) {}
  Ticket send(Rank, const MessageTag&, const void*, Bytes) override { return {notes_->sends++}; }
  Ticket receive(Rank, const MessageTag&, void*, Bytes) override { return {notes_->receives++}; }
  bool test(Ticket) override { return true; }
  bool help_others() override {
    ++notes_->helps;
    return false;
  }
  void close() override { notes_->is_closed = true; }

 private:
  Notes* notes_;
};

constexpr std::size_t small = SocketMedium::small_frame / sizeof(std::int64_t);

MessageTag tag_of(int channel, std::uint64_t number, CollectiveKind kind = CollectiveKind::all_reduce) {
  const Buffer buffer{nullptr, {1}, DType::float32};
  return {channel, number, signature_of({.kind = kind, .in = buffer, .out = buffer})};
}

/// Ranks 0 and 1, connected, and rank 2, which is not.
class SocketMediumTest : public testing::Test {
 protected:
  SocketMediumTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    for (int rank = 0; rank < 2; ++rank) {
      sockets_[rank] = ends[rank];
      std::vector<Connection> connections;
      connections.push_back({1 - rank, 0, ConnectedSocket(Descriptor(ends[rank]))});
      media_[rank] =
          std::make_unique<SocketMedium>(std::make_unique<NotingMedium>(notes_[rank]), nullptr, std::move(connections),
                                         SocketMedium::Options{.me = {rank}, .hosts = {"host1", "host2", "host3"}});
    }
  }

  Medium::Ticket send(const MessageTag& tag, const std::vector<std::int64_t>& data) {
    return media_[0]->send({1}, tag, data.data(), bytes_of(data));
  }
  Medium::Ticket receive(const MessageTag& tag, std::vector<std::int64_t>& data) {
    return media_[1]->receive({0}, tag, data.data(), bytes_of(data));
  }
  static Bytes bytes_of(const std::vector<std::int64_t>& data) { return {static_cast<std::int64_t>(8 * data.size())}; }

  /// Returns whether the tickets have become complete within a second.
  bool become_complete(int rank, std::vector<Medium::Ticket> tickets) {
    const auto end = std::chrono::steady_clock::now() + 1s;
    while (!tickets.empty() && std::chrono::steady_clock::now() < end)
      std::erase_if(tickets, [&](Medium::Ticket ticket) { return media_[rank]->test(ticket); });
    return tickets.empty();
  }

  std::array<int, 2> sockets_{};
  std::array<NotingMedium::Notes, 2> notes_;
  std::array<std::unique_ptr<SocketMedium>, 2> media_;
};

TEST_F(SocketMediumTest, MessagesFindTheirReceivesByTagInTheirOrder) {
  const std::vector<std::vector<std::int64_t>> sent = {{1}, {2, 2}, {3}, {4, 4, 4}};
  EXPECT_TRUE(become_complete(0, {send(tag_of(0, 7), sent[0]), send(tag_of(1, 7), sent[1]), send(tag_of(0, 7), sent[2]),
                                  send(tag_of(-1, 7), sent[3])}));
  // The last one is awaited first, so that all others come early.
  std::vector<std::vector<std::int64_t>> got = {{0}, {0, 0}, {0}, {0, 0, 0}};
  EXPECT_TRUE(become_complete(1, {receive(tag_of(-1, 7), got[3])}));
  EXPECT_TRUE(become_complete(1, {receive(tag_of(1, 7), got[1]), receive(tag_of(0, 7), got[0])}));
  EXPECT_TRUE(become_complete(1, {receive(tag_of(0, 7), got[2])}));
  EXPECT_EQ(got, sent);
  // The same, with the receives posted before.
  std::vector<std::vector<std::int64_t>> later = {{0}, {0, 0}, {0}, {0, 0, 0}};
  std::vector<Medium::Ticket> tickets = {receive(tag_of(0, 8), later[0]), receive(tag_of(1, 8), later[1]),
                                         receive(tag_of(0, 8), later[2]), receive(tag_of(-1, 8), later[3])};
  EXPECT_FALSE(media_[1]->test(tickets[2]));
  EXPECT_TRUE(become_complete(0, {send(tag_of(1, 8), sent[1]), send(tag_of(-1, 8), sent[3]),
                                  send(tag_of(0, 8), sent[0]), send(tag_of(0, 8), sent[2])}));
  EXPECT_TRUE(become_complete(1, tickets));
  EXPECT_EQ(later, sent);
}

TEST_F(SocketMediumTest, AMessageOfADifferentCallStaysAndDisturbsNoOther) {
  const std::vector<std::int64_t> other = {9};
  const std::vector<std::int64_t> right = {5};
  send(tag_of(0, 1, CollectiveKind::broadcast), other);
  std::vector<std::int64_t> got = {0};
  const Medium::Ticket awaited = receive(tag_of(0, 1), got);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(media_[1]->test(awaited));
  send(tag_of(0, 1), right);
  EXPECT_TRUE(become_complete(1, {awaited}));
  EXPECT_EQ(got, right);
}

TEST_F(SocketMediumTest, WhatDoesNotFitIntoTheSocketFollowsWhole) {
  for (const int end : sockets_) {
    const int least = 1;
    ASSERT_EQ(setsockopt(end, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    ASSERT_EQ(setsockopt(end, SOL_SOCKET, SO_RCVBUF, &least, sizeof least), 0);
  }
  constexpr int messages = 200;
  std::vector<std::vector<std::int64_t>> sent;
  std::vector<std::vector<std::int64_t>> got;
  for (int i = 0; i < messages; ++i) {
    sent.emplace_back(static_cast<std::size_t>(i * 37) % small + 1);
    std::iota(sent.back().begin(), sent.back().end(), i);
    got.emplace_back(sent.back().size());
  }
  std::vector<Medium::Ticket> sends;
  std::vector<Medium::Ticket> receives;
  for (int i = 0; i < messages; ++i) sends.push_back(send(tag_of(0, 3), sent[static_cast<std::size_t>(i)]));
  EXPECT_FALSE(media_[0]->test(sends.back())) << "everything fitted, so that nothing has been tested";
  const auto expected = sent;
  for (auto& data : got) receives.push_back(receive(tag_of(0, 3), data));
  for (int round = 0; round < 100'000 && !(sends.empty() && receives.empty()); ++round) {
    for (std::size_t i = 0; i < sends.size();) {
      if (!media_[0]->test(sends[i])) {
        ++i;
        continue;
      }
      const std::size_t which = sent.size() - sends.size() + i;  // they complete in their order
      std::fill(sent[which].begin(), sent[which].end(), -1);     // as the program may do from now on
      sends.erase(sends.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::erase_if(receives, [&](Medium::Ticket ticket) { return media_[1]->test(ticket); });
  }
  EXPECT_TRUE(sends.empty() && receives.empty());
  EXPECT_EQ(got, expected);
}

TEST_F(SocketMediumTest, MessagesWithoutAConnectionGoByTheOtherMedium) {
  std::vector<std::int64_t> data(1);
  const Medium::Ticket sends = media_[0]->send({2}, tag_of(0, 1), data.data(), bytes_of(data));
  const Medium::Ticket receives = media_[1]->receive({2}, tag_of(0, 1), data.data(), bytes_of(data));
  EXPECT_TRUE(media_[0]->test(sends));
  EXPECT_TRUE(media_[1]->test(receives));
  send(tag_of(0, 1, CollectiveKind::all_to_all_v), data);
  EXPECT_EQ(notes_[0].sends, 1);
  EXPECT_EQ(notes_[1].receives, 1);
}

TEST_F(SocketMediumTest, AWaitHelpsTheOtherMedium) {
  std::vector<std::int64_t> data(1);
  const Medium::Ticket ticket = receive(tag_of(0, 1), data);
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(media_[1]->test(ticket));
  EXPECT_GT(notes_[1].helps, 10);
  EXPECT_LT(notes_[1].helps, 200) << "it takes time from the socket";
}

TEST_F(SocketMediumTest, WhatHasArrivedBeforeTheEndIsReceivedAndThenTheRankIsNamed) {
  const std::vector<std::int64_t> sent = {1, 2, 3};
  send(tag_of(0, 1), sent);
  media_[0]->close();
  EXPECT_TRUE(notes_[0].is_closed);
  std::vector<std::int64_t> first(3);
  std::vector<std::int64_t> second(3);
  EXPECT_TRUE(become_complete(1, {receive(tag_of(0, 1), first)}));
  EXPECT_EQ(first, sent);
  const Medium::Ticket never = receive(tag_of(0, 2), second);
  EXPECT_FALSE(media_[1]->test(never)) << "a rank that leaves for a reason gets the time to say it";
  std::this_thread::sleep_for(50ms);
  try {
    media_[1]->test(never);
    ADD_FAILURE() << "the end was not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::transport);
    EXPECT_EQ(error.context().peers, std::vector{0});
    EXPECT_EQ(error.message(), "rank 0 on host1 has ended: its connection is closed");
  }
}

TEST_F(SocketMediumTest, ASendToARankThatHasEndedFails) {
  media_[1]->close();
  const std::vector<std::int64_t> data(1);
  const Medium::Ticket ticket = send(tag_of(0, 1), data);
  EXPECT_FALSE(media_[0]->test(ticket));
  std::this_thread::sleep_for(50ms);
  EXPECT_THROW(media_[0]->test(ticket), Error);
}

TEST_F(SocketMediumTest, AMessageOfAnotherSizeIsAMismatch) {
  const std::vector<std::int64_t> sent(2);
  std::vector<std::int64_t> got(1);
  send(tag_of(0, 1), sent);
  const Medium::Ticket ticket = receive(tag_of(0, 1), got);
  try {
    media_[1]->test(ticket);
    ADD_FAILURE() << "the sizes were not compared";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_NE(error.message().find("a message of 16 where 8 bytes were expected"), std::string::npos) << error.what();
  }
}

TEST_F(SocketMediumTest, WhatIsNoMessageIsRefused) {
  const std::vector<unsigned char> garbage(100, 0xff);
  ASSERT_EQ(::send(sockets_[0], garbage.data(), garbage.size(), 0), 100);
  std::vector<std::int64_t> got(1);
  const Medium::Ticket ticket = receive(tag_of(0, 1), got);
  EXPECT_THROW(media_[1]->test(ticket), Error);
}

/// Returns nodes of equal size, with ranks numbered node by node.
ClusterShape equal_nodes(int nodes, int ranks_per_node) {
  ClusterShape shape;
  for (int rank = 0; rank < nodes * ranks_per_node; ++rank) shape.node_of_rank.push_back(rank / ranks_per_node);
  return shape;
}

int node_of(const ClusterShape& shape, int rank) { return shape.node_of_rank[static_cast<std::size_t>(rank)]; }

/// Ranks 0 and 1, which nothing but their connection connects, with and without checksums.
class AloneTest : public testing::TestWithParam<bool> {
 protected:
  AloneTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<Connection> connections;
      connections.push_back({1 - rank, 0, ConnectedSocket(Descriptor(ends[rank]))});
      media_[rank] = std::make_unique<SocketMedium>(
          nullptr, nullptr, std::move(connections),
          SocketMedium::Options{.me = {rank}, .hosts = {"host1", "host2"}, .checksum = GetParam()});
    }
  }
  static std::vector<std::int64_t> numbers(std::int64_t first, std::size_t count) {
    std::vector<std::int64_t> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
  }
  Medium::Ticket send(int from, std::uint64_t number, const std::vector<std::int64_t>& data, int to) {
    return media_[from]->send({to}, tag_of(0, number), data.data(), {static_cast<std::int64_t>(8 * data.size())});
  }
  Medium::Ticket receive(int to, std::uint64_t number, std::vector<std::int64_t>& data, int from) {
    return media_[to]->receive({from}, tag_of(0, number), data.data(), {static_cast<std::int64_t>(8 * data.size())});
  }
  /// Tests both until both are complete.
  void complete(int one, Medium::Ticket first, int other, Medium::Ticket second) {
    bool is_first_done = false;
    bool is_second_done = false;
    for (int tries = 0; tries < 1'000'000 && (!is_first_done || !is_second_done); ++tries) {
      is_first_done = is_first_done || media_[one]->test(first);
      is_second_done = is_second_done || media_[other]->test(second);
    }
    EXPECT_TRUE(is_first_done && is_second_done);
  }

  std::array<std::unique_ptr<SocketMedium>, 2> media_;
};

TEST_P(AloneTest, MessagesOfAllSizesArriveAwaitedOrNot) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, small, small + 1, 5 * small, std::size_t{300'000}}) {
    const auto first = numbers(1, count);
    const auto second = numbers(1'000'000, count);
    std::vector<std::int64_t> into_first(count);
    std::vector<std::int64_t> into_second(count);
    // The second message is awaited before the first, which arrives before it.
    const auto receives_second = receive(1, 2, into_second, 0);
    const auto sends_first = send(0, 1, first, 1);
    const auto sends_second = send(0, 2, second, 1);
    complete(0, sends_second, 1, receives_second);
    complete(0, sends_first, 1, receive(1, 1, into_first, 0));
    EXPECT_EQ(into_first, first);
    EXPECT_EQ(into_second, second);
  }
  EXPECT_FALSE(media_[0]->is_shared());
  EXPECT_FALSE(media_[1]->is_shared());
}

TEST_P(AloneTest, RanksSendToEachOtherAtATime) {
  constexpr std::size_t count = 400'000;  // more than sockets take
  const std::array<std::vector<std::int64_t>, 2> sent = {numbers(5, count), numbers(-7, count)};
  std::array<std::vector<std::int64_t>, 2> received = {std::vector<std::int64_t>(count),
                                                       std::vector<std::int64_t>(count)};
  std::vector<std::pair<int, Medium::Ticket>> under_way;
  for (int rank = 0; rank < 2; ++rank) {
    under_way.emplace_back(rank, send(rank, 1, sent[rank], 1 - rank));
    under_way.emplace_back(rank, receive(rank, 1, received[rank], 1 - rank));
  }
  EXPECT_TRUE(media_[0]->is_shared());
  for (int tries = 0; tries < 1'000'000 && !under_way.empty(); ++tries)
    std::erase_if(under_way, [&](const auto& message) { return media_[message.first]->test(message.second); });
  EXPECT_TRUE(under_way.empty());
  EXPECT_EQ(received[0], sent[1]);
  EXPECT_EQ(received[1], sent[0]);
}

TEST_P(AloneTest, AnEmptyMessageThatHasToWaitLeavesByItself) {
  const auto large = numbers(1, 400'000);  // more than the socket takes
  std::vector<std::int64_t> into(large.size());
  const auto sends_large = send(0, 1, large, 1);
  const auto sends_empty = media_[0]->send({1}, tag_of(0, 2), nullptr, {0});
  const auto receives_large = receive(1, 1, into, 0);
  bool has_arrived = false;
  bool has_left = false;
  for (int tries = 0; tries < 1'000'000 && !(has_arrived && has_left); ++tries) {
    has_left = has_left || media_[0]->test(sends_empty);  // nobody tests the large one
    has_arrived = has_arrived || media_[1]->test(receives_large);
  }
  EXPECT_TRUE(has_arrived);
  EXPECT_TRUE(has_left);
  EXPECT_TRUE(media_[0]->test(sends_large));
  EXPECT_TRUE(media_[1]->test(media_[1]->receive({0}, tag_of(0, 2), nullptr, {0})));
  EXPECT_EQ(into, large);
}

TEST_P(AloneTest, ARankSendsToItself) {
  const auto data = numbers(3, 5000);
  std::vector<std::int64_t> before(data.size());
  std::vector<std::int64_t> after(data.size());
  const auto receives = receive(0, 1, before, 0);
  EXPECT_TRUE(media_[0]->test(send(0, 1, data, 0)));
  EXPECT_TRUE(media_[0]->test(receives));
  EXPECT_TRUE(media_[0]->test(send(0, 2, data, 0)));
  EXPECT_TRUE(media_[0]->test(receive(0, 2, after, 0)));
  EXPECT_EQ(before, data);
  EXPECT_EQ(after, data);
}

TEST_P(AloneTest, ALongMessageOfAnotherSizeOverwritesNothing) {
  const auto data = numbers(1, 50'000);
  std::vector<std::int64_t> shorter(100, -1);
  const auto receives = receive(1, 1, shorter, 0);
  const auto sends = send(0, 1, data, 1);
  ErrorCode code = ErrorCode::io;
  try {
    for (int tries = 0; tries < 1000; ++tries) {
      (void)media_[1]->test(receives);
      (void)media_[0]->test(sends);
    }
  } catch (const Error& error) {
    code = error.code();
  }
  EXPECT_EQ(code, ErrorCode::mismatch);
  EXPECT_EQ(shorter, std::vector<std::int64_t>(100, -1));
}

INSTANTIATE_TEST_SUITE_P(Checksum, AloneTest, testing::Bool(),
                         [](const auto& parameter) { return std::string(parameter.param ? "yes" : "no"); });

/// A message of rank 0 with a checksum, which passes through the test's hands.
class ChangedBits : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t header = 48;

  /// Sends a message, inverts a bit of one of its bytes, and lets rank 1 receive it.
  static void pass(const std::vector<std::int64_t>& data, std::optional<std::size_t> place,
                   std::vector<std::int64_t>& got) {
    std::array<Descriptor, 2> hands;
    std::array<std::unique_ptr<SocketMedium>, 2> media;
    for (int rank = 0; rank < 2; ++rank) {
      std::array<int, 2> ends{};
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
      std::vector<Connection> connections;
      connections.push_back({1 - rank, 0, ConnectedSocket(Descriptor(ends[0]))});
      media[rank] = std::make_unique<SocketMedium>(
          nullptr, nullptr, std::move(connections),
          SocketMedium::Options{.me = {rank}, .hosts = {"host1", "host2"}, .checksum = true});
      hands[rank] = Descriptor(ends[1]);
    }
    const Bytes bytes{static_cast<std::int64_t>(8 * data.size())};
    (void)media[0]->send({1}, tag_of(1, 5), data.data(), bytes);
    std::vector<char> wire(header + 8 * data.size() + 1);
    const ssize_t sent = recv(hands[0].get(), wire.data(), wire.size(), 0);
    ASSERT_EQ(sent, static_cast<ssize_t>(header + 8 * data.size()));
    if (place) wire[*place] = static_cast<char>(wire[*place] ^ 4);
    ASSERT_EQ(::send(hands[1].get(), wire.data(), static_cast<std::size_t>(sent), 0), sent);
    const Medium::Ticket ticket = media[1]->receive({0}, tag_of(1, 5), got.data(), bytes);
    EXPECT_TRUE(media[1]->test(ticket));
  }
};

TEST_P(ChangedBits, AreFoundWhereverTheyAre) {
  const std::vector<std::int64_t> data(GetParam(), 7);
  std::vector<std::int64_t> got(data.size());
  pass(data, std::nullopt, got);
  EXPECT_EQ(got, data);
  // Bytes of the channel, the number, the signature, the size and both checksums, the first and the last of the data.
  for (const std::size_t place :
       {std::size_t{0}, std::size_t{8}, std::size_t{16}, std::size_t{24}, std::size_t{32}, std::size_t{37},
        std::size_t{40}, std::size_t{44}, header, header + 8 * data.size() - 1}) {
    try {
      pass(data, place, got);
      ADD_FAILURE() << "nobody noticed byte " << place;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::transport);
      EXPECT_EQ(error.context().peers, std::vector{0});
      const std::string what =
          place < header ? "the header of a message" : "a message of " + std::to_string(8 * data.size()) + " bytes";
      EXPECT_NE(error.message().find(what + " from rank 0 on host1 has changed on its way"), std::string::npos)
          << error.message();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Numbers, ChangedBits, testing::Values(1, 100, small + 1000));

TEST(SocketPartners, AreAllRanksOfOtherHostsIfTheseAreFew) {
  constexpr auto usual = Sockets::automatic;
  EXPECT_EQ(socket_partners(equal_nodes(1, 4), {0}, usual), std::vector<int>{});
  EXPECT_EQ(socket_partners(equal_nodes(2, 2), {1}, usual), (std::vector{2, 3}));
  EXPECT_EQ(socket_partners(equal_nodes(1, 4), {1}, Sockets::everywhere), (std::vector{0, 2, 3}));
  EXPECT_EQ(socket_partners(equal_nodes(1, 4), {0}, Sockets::everywhere), (std::vector{1, 2}));
  EXPECT_EQ(ranks_by_socket(equal_nodes(1, 4), {0}, Sockets::everywhere), (std::vector{1, 2, 3}));
  EXPECT_EQ(ranks_by_socket(equal_nodes(64, 16), {5}, usual).size(), 63U * 16U);
  EXPECT_EQ(socket_partners(equal_nodes(8, 4), {31}, usual).size(), 28U);
}

TEST(SocketPartners, AreFewAndMutualOnLargeClusters) {
  const std::vector<ClusterShape> shapes = {equal_nodes(64, 16), equal_nodes(43, 3), equal_nodes(1000, 1),
                                            equal_nodes(5, 7)};
  for (const ClusterShape& shape : shapes) {
    std::vector<std::vector<int>> partners;
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      partners.push_back(socket_partners(shape, {rank}, Sockets::automatic));
      EXPECT_LE(partners.back().size(), 32U);
    }
    for (int a = 0; a < shape.ranks(); ++a) {
      const auto& of_a = partners[static_cast<std::size_t>(a)];
      for (const int b : of_a) {
        const auto& of_b = partners[static_cast<std::size_t>(b)];
        EXPECT_EQ(std::count(of_b.begin(), of_b.end(), a), 1) << a << " and " << b;
        EXPECT_NE(node_of(shape, a), node_of(shape, b));
      }
      // In recursive doubling a rank exchanges with those whose numbers differ in one bit.
      for (int bit = 1; bit < shape.ranks(); bit *= 2) {
        const int b = a ^ bit;
        if (b >= shape.ranks() || node_of(shape, a) == node_of(shape, b)) continue;
        EXPECT_EQ(std::count(of_a.begin(), of_a.end(), b), 1) << a << " and " << b;
      }
    }
  }
}

TEST(SocketNames, AreParsed) {
  for (const std::string_view word : socket_names()) EXPECT_EQ(name(parse_sockets(word)), word);
  EXPECT_THROW((void)parse_sockets("on"), Error);
  EXPECT_THROW((void)parse_sockets("everywhere"), Error);
}

}  // namespace
}  // namespace lockstep::backends
