// SPDX-License-Identifier: Apache-2.0
// What the watchdog tells: the record of operations, stacks of threads, and the explanation of what ranks do.
#include "platform/watchdog/watchdog.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/signal_stack.hpp"
#include "platform/tcp/tcp.hpp"
#include "platform/watchdog/process.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"

/// What a thread waits for. The thread sanitizer delivers a signal to a thread that waits for a condition variable, but
/// not to one that waits for a mutex.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool is_open = false;
};

/// A function that the program exports under this name, in which a thread waits. External C linkage keeps the name.
extern "C" __attribute__((noinline)) void lockstep_test_waits_here(Gate& gate) {
  std::unique_lock lock(gate.mutex);
  gate.opened.wait(lock, [&] { return gate.is_open; });
}

namespace lockstep {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

/// The record lies in memory that is zero at the start.
std::unique_ptr<FlightRecorder> empty_record() { return std::make_unique<FlightRecorder>(); }

TEST(FlightRecorder, KeepsTheLastOperationsInTheirOrder) {
  const auto record = empty_record();
  for (int i = 0; i < 300; ++i) {
    record->set_step(i);
    const std::uint64_t number = record->begin(CollectiveKind::all_reduce, "bucket " + std::to_string(i), {8 * i});
    if (i != 299) record->end(number);
  }
  const auto operations = record->operations();
  ASSERT_EQ(operations.size(), FlightRecorder::remembered);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto expected = static_cast<std::int64_t>(300 - FlightRecorder::remembered + i);
    EXPECT_EQ(operations[i].number, expected);
    EXPECT_EQ(operations[i].label, "bucket " + std::to_string(expected));
    EXPECT_EQ(operations[i].bytes.value, 8 * expected);
    EXPECT_EQ(operations[i].step, expected);
    EXPECT_EQ(operations[i].is_pending, expected == 299);
  }
}

/// Another thread reads while the rank writes, which thousands of reads would notice.
TEST(FlightRecorder, IsReadWhileItIsWritten) {
  const auto record = empty_record();
  std::atomic<bool> ends = false;
  std::thread reader([&] {
    while (!ends.load()) {
      for (const auto& operation : record->operations()) {
        const bool is_long = operation.bytes.value % 2 == 0;
        EXPECT_EQ(operation.label, operation.label.empty() ? "" : std::string(is_long ? 40 : 4, is_long ? 'a' : 'b'));
        EXPECT_EQ(operation.kind, is_long ? CollectiveKind::broadcast : CollectiveKind::barrier);
      }
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const bool is_long = i % 2 == 0;
    record->end(record->begin(is_long ? CollectiveKind::broadcast : CollectiveKind::barrier,
                              std::string(is_long ? 40 : 4, is_long ? 'a' : 'b'), {i}));
  }
  ends = true;
  reader.join();
}

TEST(Stacks, ShowWhereAnotherThreadWaits) {
  ASSERT_TRUE(prepare_for_stacks());
  Gate gate;
  std::atomic<bool> runs = false;
  std::thread waiter([&] {
    pthread_setname_np(pthread_self(), "waiter");
    runs = true;
    lockstep_test_waits_here(gate);
  });
  while (!runs) std::this_thread::yield();
  std::string found;
  for (int i = 0; i < 100 && found.find("lockstep_test_waits_here") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (const ThreadStack& stack : stacks_of_other_threads())
      if (stack.name == "waiter") found = joined(stack.frames);
  }
  EXPECT_NE(found.find("lockstep_test_waits_here"), std::string::npos) << found;
  {
    const std::lock_guard lock(gate.mutex);
    gate.is_open = true;
  }
  gate.opened.notify_one();
  waiter.join();
}

/// The stack of a thread that calls `compute(ends)` until `ends` is set.
/// @param tries  how often it is asked for if it does not answer, which it may have no processor for
template <typename Compute>
std::vector<std::string> stack_while(const Compute& compute, int tries) {
  EXPECT_TRUE(prepare_for_stacks());
  std::atomic<bool> runs = false;
  std::atomic<bool> ends = false;
  std::thread busy([&] {
    pthread_setname_np(pthread_self(), "busy");
    runs = true;
    compute(ends);
  });
  while (!runs) std::this_thread::yield();
  std::vector<std::string> frames;
  for (int i = 0; i < tries && frames.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (ThreadStack& stack : stacks_of_other_threads())
      if (stack.name == "busy") frames = std::move(stack.frames);
  }
  ends = true;
  busy.join();
  return frames;
}

TEST(Stacks, ARunningThreadIsInterruptedOnlyWithAStackForSignals) {
  EXPECT_TRUE(stack_while(
                  [](const std::atomic<bool>& ends) {
                    while (!ends) continue;
                  },
                  1)
                  .empty());
  EXPECT_FALSE(stack_while(
                   [](const std::atomic<bool>& ends) {
                     use_signal_stack();
                     // The thread sanitizer delivers a signal when the thread sleeps, which it does a small part of the
                     // time.
                     for (std::int64_t i = 1; !ends; ++i)
                       if (i % 1'000'000 == 0) std::this_thread::sleep_for(std::chrono::nanoseconds(1));
                   },
                   100)
                   .empty());
}

#ifdef __x86_64__
/// Waits with a stack pointer into the heap, as some of oneDNN's kernels compute.
[[gnu::noinline]] void spin_with_stack_at(std::byte* place, const std::atomic<bool>& ends) {
  asm volatile(
      "mov %%rsp, %%rbx\n"
      "mov %0, %%rsp\n"
      "1: pause\n"
      "cmpb $0, (%1)\n"
      "je 1b\n"
      "mov %%rbx, %%rsp\n"
      :
      : "r"(place), "r"(&ends)
      : "rbx", "memory", "cc");
}

TEST(Stacks, AreTakenWithoutWritingWhereTheStackPointerOfAThreadPoints) {
  std::vector<std::byte> block(std::size_t{128} << 10);
  (void)stack_while(
      [&](const std::atomic<bool>& ends) {
        use_signal_stack();
        spin_with_stack_at(block.data() + block.size() / 2, ends);
      },
      3);
  EXPECT_EQ(std::ranges::count(block, std::byte{0}), std::ssize(block));
}
#endif

TEST(Stacks, AThreadThatBlocksSignalsHasNone) {
  ASSERT_TRUE(prepare_for_stacks());
  std::atomic<bool> runs = false;
  std::atomic<bool> ends = false;
  std::thread deaf([&] {
    pthread_setname_np(pthread_self(), "deaf");
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    runs = true;
    while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  while (!runs) std::this_thread::yield();
  int seen = 0;
  for (const ThreadStack& stack : stacks_of_other_threads()) {
    if (stack.name != "deaf") continue;
    ++seen;
    EXPECT_TRUE(stack.frames.empty());
  }
  EXPECT_EQ(seen, 1);
  ends = true;
  deaf.join();
}

TEST(Stacks, TheFirstThreadComesFirstEvenIfOthersHaveSmallerIds) {
  ASSERT_TRUE(prepare_for_stacks());
  int most = 0;
  std::ifstream("/proc/sys/kernel/pid_max") >> most;
  if (most > 100'000) LOCKSTEP_SKIP(thread_ids) << "they begin again only after " << most << " threads";
  std::atomic<bool> ends = false;
  bool is_smaller = false;
  std::thread helper;
  for (int i = 0; i < 2 * most && !is_smaller; ++i) {
    std::promise<bool> answer;
    helper = std::thread([&] {
      const bool mine_is_smaller = gettid() < getpid();
      answer.set_value(mine_is_smaller);
      while (mine_is_smaller && !ends) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    is_smaller = answer.get_future().get();
    if (!is_smaller) helper.join();
  }
  ASSERT_TRUE(is_smaller);
  const auto stacks = std::async(std::launch::async, stacks_of_other_threads).get();
  ends = true;
  helper.join();
  ASSERT_EQ(stacks.size(), 2U);
  EXPECT_EQ(stacks.front().thread, getpid());
}

RankReport report(int rank, const std::string& host, bool waits, std::vector<std::string> frames) {
  RankReport made{
      .rank = rank, .host = host, .process = 100 + rank, .state = "sleeping", .step = 7, .task = "training"};
  made.operation = "all_reduce 'bucket 3' (64 bytes) of step 7";
  made.is_waiting = waits;
  made.seconds = 5;
  made.stacks = {{.thread = 100 + rank, .name = "train", .frames = std::move(frames)}};
  return made;
}

TEST(ExplainRanks, NamesTheOddRankFirst) {
  const std::vector<std::string> hosts = {"host1", "host1", "host2", "host2"};
  std::vector<RankReport> reports;
  for (const int rank : {0, 1, 3}) {
    // The innermost functions differ from moment to moment.
    reports.push_back(report(rank, hosts[static_cast<std::size_t>(rank)], true,
                             {rank == 0 ? "sched_yield" : "poll", "lockstep::Progress::wait(lockstep::Operation&)",
                              "lockstep::Work::wait()", "main"}));
  }
  reports.push_back(report(2, "host2", false, {"pthread_mutex_lock", "the_users_layer", "main"}));
  reports.back().history = {"broadcast 'weights' (8 bytes) of step 6"};
  const std::string text = explain_ranks(hosts, reports, 3);
  const std::size_t odd = text.find("rank 2 on host2: training, step 7; its last operation");
  const std::size_t others = text.find("ranks 0 on host1, 1 on host1, 3 on host2: waiting in all_reduce 'bucket 3'");
  EXPECT_LT(odd, others) << text;
  EXPECT_NE(others, std::string::npos) << text;
  EXPECT_NE(text.find("before that, on rank 2: broadcast 'weights' (8 bytes) of step 6"), std::string::npos) << text;
  const std::size_t odd_stack = text.find("rank 2 on host2 is here:\n    pthread_mutex_lock\n    the_users_layer");
  const std::size_t other_stacks = text.find("3 of 4 ranks (ranks 0 on host1, 1 on host1, 3 on host2) wait here:");
  EXPECT_LT(odd_stack, other_stacks) << text;
  EXPECT_NE(other_stacks, std::string::npos) << text;
}

TEST(ExplainRanks, SaysWhoIsSilentAndWhoTellsOfAStoppedRank) {
  std::vector<RankReport> reports = {report(0, "a", true, {"main"}), report(1, "a", false, {})};
  reports[1].state = "stopped";
  reports[1].source = "rank 0, which shares its node";
  reports[1].stacks.clear();
  const std::string text = explain_ranks({"a", "a", "b"}, reports, 0);
  EXPECT_NE(text.find("rank 2 on b: no answer"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 on a: its process is stopped; training, step 7"), std::string::npos) << text;
  EXPECT_NE(text.find("(says rank 0, which shares its node)"), std::string::npos) << text;
}

TEST(ExplainRanks, ReportsTravelAsText) {
  const std::vector<RankReport> reports = {report(3, "h", true, {"f\xff", "main"})};
  const auto read = reports_from_json(to_json(reports), 4);
  ASSERT_TRUE(read && read->size() == 1);
  EXPECT_EQ(read->front().operation, reports.front().operation);
  EXPECT_EQ(read->front().stacks.front().frames.back(), "main");
  EXPECT_FALSE(reports_from_json("{", 4));
  EXPECT_FALSE(reports_from_json("[{\"rank\": \"x\"}]", 4));
}

/// Whatever a process sends that has taken the place of a rank.
TEST(ExplainRanks, WhatStrangersReportIsInRangeAndHarmless) {
  const std::string evil = "\x1b]0;title\a\n\xc2\x9b" + std::string(100'000, 'x');
  RankReport lie = report(1, evil, false, {evil});
  lie.state = lie.task = lie.operation = lie.source = evil;
  lie.history = {evil};
  lie.stacks.push_back({.thread = 7, .name = evil, .frames = std::vector<std::string>(10'000, evil.substr(0, 20))});
  const std::string host = R"("\u001b[2J")";
  const auto job = job_from_json(R"({"hosts": [)" + host + ", " + host + R"(], "addresses": ["", ""]})");
  ASSERT_TRUE(job);
  auto read = reports_from_json(to_json({report(100'000'000, "h", true, {}), lie, report(-1, "h", true, {})}), 2);
  ASSERT_TRUE(read && read->size() == 1);
  const std::string text = explain_job(*job, std::move(*read), 10);
  for (const unsigned char c : text) ASSERT_TRUE(c == '\n' || (c >= ' ' && c != 0x7f)) << static_cast<int>(c);
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
  EXPECT_LT(text.size(), 20'000U);
  EXPECT_NE(text.find("rank 0 on ?[2J: no answer"), std::string::npos) << text.substr(0, 200);
  EXPECT_FALSE(job_from_json(R"({"hosts": ["h"], "addresses": []})"));
  EXPECT_FALSE(job_from_json(R"({"hosts": [], "addresses": []})"));
}

/// A thread that answers questions as a rank's watchdog does.
class Answering {
 public:
  explicit Answering(std::string answer)
      : thread_([this, answer = std::move(answer)] {
          while (!ends_) {
            channel_.serve(std::chrono::milliseconds(1000),
                           [&](Purpose question, bool) { return question == Purpose::rank_report ? answer : ""; });
          }
        }) {}
  ~Answering() {
    ends_ = true;
    channel_.wake();
    thread_.join();
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;
  [[nodiscard]] const std::string& address() const { return channel_.address(); }

 private:
  SideChannel channel_{false};
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

TEST(SideChannel, AnswersThoseWhoKnowItsSecretOnly) {
  const Answering long_one(std::string(300'000, 'x'));
  const SideChannel silent(false);  // accepts connections, and nobody serves it
  std::string wrong = long_one.address();
  wrong.front() = wrong.front() == '0' ? '1' : '0';
  const auto answers =
      ask_all({long_one.address(), silent.address(), wrong, ""}, Purpose::rank_report, std::chrono::milliseconds(700));
  EXPECT_EQ(answers[0], std::string(300'000, 'x'));
  EXPECT_FALSE(answers[1]);
  EXPECT_FALSE(answers[2]);
  EXPECT_FALSE(answers[3]);
}

/// Connections of strangers, who need no secret to connect.
std::vector<Descriptor> connections_to(const std::string& address, int number, std::string_view text) {
  std::istringstream words(address);
  std::string secret;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::uint16_t port = 0;
  words >> secret >> port;
  place.sin_port = htons(port);
  std::vector<Descriptor> made;
  for (int i = 0; i < number; ++i) {
    Descriptor& connection = made.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(connection.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
    EXPECT_EQ(send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  return made;
}

TEST(SideChannel, StrangersDelayNobody) {
  const Answering rank("what it does");
  const auto silent = connections_to(rank.address(), 300, "");
  const auto slow = connections_to(rank.address(), 100, "0123");
  EXPECT_EQ(ask_all({rank.address()}, Purpose::rank_report, std::chrono::milliseconds(1500)).front(), "what it does");
  // Who does not know the secret is turned away, however much comes.
  const auto talking = connections_to(rank.address(), 1, std::string(1000, 'x'));
  pollfd entry{talking.front().get(), POLLIN | POLLHUP, 0};
  EXPECT_EQ(poll(&entry, 1, 1500), 1);
}

/// Returns the address of a side channel with another host in it.
std::string at_host(const std::string& address, const std::string& host) {
  TcpAddress changed = tcp_address_from(address);
  changed.hosts = {host};
  return to_text(changed);
}

TEST(SideChannel, IsReachedOverIpv4AndIpv6) {
  const Descriptor wide(socket(AF_INET6, SOCK_STREAM, 0));
  const SocketAddress loopback = socket_address("::1", 0);
  if (!wide.open() || bind(wide.get(), loopback.plain(), loopback.length) != 0)
    LOCKSTEP_SKIP(ipv6) << "this system has no IPv6";
  SideChannel channel(false);
  for (const std::string host : {"127.0.0.1", "::1"}) {
    const std::string address = at_host(channel.address(), host);
    const SideChannel sender(false);
    sender.send_heartbeat(address, "3 over " + host);
    std::vector<std::optional<std::string>> answers;
    std::thread asker([&] { answers = ask_all({address}, Purpose::rank_report, std::chrono::milliseconds(1500)); });
    for (int i = 0; i < 20; ++i)
      channel.serve(std::chrono::milliseconds(20), [](Purpose, bool) { return std::string("here"); });
    asker.join();
    EXPECT_EQ(answers.front(), "here") << host;
    ASSERT_EQ(channel.heartbeats().size(), 1U) << host;
    EXPECT_EQ(channel.heartbeats().at("3").text, "3 over " + host);
  }
}

TEST(InterfaceChoice, HasTheFormsOfNcclAndOpenMpi) {
  const InterfaceChoice all;
  EXPECT_TRUE(all.allows("eth0", "10.0.0.1", false));
  EXPECT_FALSE(all.allows("lo", "127.0.0.1", true));
  const InterfaceChoice beginnings("NCCL_SOCKET_IFNAME", "eth,ib", false, false);
  EXPECT_TRUE(beginnings.allows("eth12", "10.0.0.1", false) && beginnings.allows("ib0", "10.0.0.1", false));
  EXPECT_FALSE(beginnings.allows("docker0", "172.17.0.1", false));
  const InterfaceChoice whole("NCCL_SOCKET_IFNAME", "=eth1,lo", false, false);
  EXPECT_TRUE(whole.allows("eth1", "10.0.0.1", false) && whole.allows("lo", "127.0.0.1", true));
  EXPECT_FALSE(whole.allows("eth12", "10.0.0.1", false));
  EXPECT_EQ(whole.text(), "NCCL_SOCKET_IFNAME==eth1,lo");
  const InterfaceChoice excluded("NCCL_SOCKET_IFNAME", "docker,veth", true, false);
  EXPECT_TRUE(excluded.allows("eth0", "10.0.0.1", false));
  EXPECT_FALSE(excluded.allows("docker0", "172.17.0.1", false) || excluded.allows("lo", "127.0.0.1", true));
  const InterfaceChoice subnets("OMPI_MCA_btl_tcp_if_include", "10.0.1.0/24,eth3", false, true);
  EXPECT_TRUE(subnets.allows("eth0", "10.0.1.77", false) && subnets.allows("eth3", "fd00::1", false));
  EXPECT_FALSE(subnets.allows("eth0", "10.0.2.77", false) || subnets.allows("eth31", "10.0.3.1", false));
}

/// Sets a variable while it exists.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(SideChannel, DoesNotTellTheSecretOfTheJobInItsAddress) {
  const Variable with_secret("LOCKSTEP_SECRET", "some words that nobody knows");
  SideChannel channel(true);
  const std::string address = channel.address();
  EXPECT_EQ(address.find("nobody"), std::string::npos);
  EXPECT_EQ(tcp_address_from(address).hosts, std::vector<std::string>{"127.0.0.1"});
  SideChannel(true).send_heartbeat(address, "7 is well");
  channel.serve(std::chrono::milliseconds(20), [](Purpose, bool) { return std::string(); });
  EXPECT_EQ(channel.heartbeats().at("7").text, "7 is well");
  for (const bool is_known : {true, false}) {
    std::optional<Variable> other;
    if (!is_known) other.emplace("LOCKSTEP_SECRET", "another word of this length");
    std::vector<std::optional<std::string>> answers;
    std::thread asker([&] { answers = ask_all({address}, Purpose::rank_report, std::chrono::milliseconds(1000)); });
    for (int i = 0; i < 20; ++i)
      channel.serve(std::chrono::milliseconds(20), [](Purpose, bool) { return std::string("here"); });
    asker.join();
    EXPECT_EQ(answers.front().has_value(), is_known);
  }
}

TEST(InterfaceChoice, IsWhatIsListenedOn) {
  const Variable chosen("LOCKSTEP_SOCKET_IFNAME", "=lo");
  const Variable passed_over("NCCL_SOCKET_IFNAME", "eth");
  const OwnAddresses own = own_addresses();
  EXPECT_TRUE(own.are_chosen);
  ASSERT_FALSE(own.hosts.empty());
  EXPECT_EQ(own.hosts.front(), "127.0.0.1");
  const Answering rank("what it does");
  const TcpAddress address = tcp_address_from(rank.address());
  EXPECT_EQ(address.hosts, own.hosts);
  EXPECT_EQ(ask_all({rank.address()}, Purpose::rank_report, std::chrono::milliseconds(1500)).front(), "what it does");
  for (const std::string& host : own_addresses(InterfaceChoice()).hosts) {
    if (host == "127.0.0.1") continue;
    const Descriptor refused = begin_connection(host, address.tcp);
    pollfd entry{refused.get(), POLLOUT, 0};
    EXPECT_TRUE(!refused.open() || (poll(&entry, 1, 1000) == 1 && (entry.revents & POLLERR) != 0)) << host;
  }
}

TEST(InterfaceChoice, ThatLeavesNoneIsAnErrorIfItWasMadeForLockstep) {
  {
    const Variable of_nccl("NCCL_SOCKET_IFNAME", "no-such-interface");
    EXPECT_FALSE(own_addresses().are_chosen);
  }
  const Variable chosen("LOCKSTEP_SOCKET_IFNAME", "no-such-interface");
  expect_error([] { (void)own_addresses(); }, ErrorCode::invalid_argument,
               {"LOCKSTEP_SOCKET_IFNAME=no-such-interface leaves no", "lo (127.0.0.1)"});
}

TEST(Greeting, IsKnownByTheWholeSecretAndNothingElse) {
  const std::string secret = random_word();
  const Greeting right = greeting_to(secret, Purpose::rank_report, 7);
  EXPECT_TRUE(knows(right, secret));
  for (std::size_t i = 0; i < secret.size(); ++i) {
    Greeting wrong = right;
    wrong.secret[i] = wrong.secret[i] == '0' ? '1' : '0';
    EXPECT_FALSE(knows(wrong, secret)) << i;
  }
  EXPECT_FALSE(knows(right, secret.substr(1)));
  EXPECT_FALSE(knows(Greeting{}, secret));
  EXPECT_FALSE(is_same_secret(secret, secret + ' '));
}

/// A silent connection is closed after two seconds, and a half greeting is none.
TEST(Arrivals, WaitSideBySideForAShortTime) {
  std::uint16_t port = 0;
  const std::vector<Descriptor> listeners = open_sockets(SOCK_STREAM, {"127.0.0.1"}, port);
  ASSERT_EQ(listeners.size(), 1U);
  Arrivals arrivals("word");
  std::vector<Descriptor> callers;
  for (int i = 0; i < 3; ++i) callers.push_back(begin_connection("127.0.0.1", port));
  EXPECT_TRUE(send_greeting(callers[1].get(), greeting_to("word", Purpose::job_table, 5)));
  EXPECT_EQ(send(callers[2].get(), "half", 4, MSG_NOSIGNAL), 4);
  std::vector<Arrival> known;
  const auto begin = std::chrono::steady_clock::now();
  while (known.empty() && std::chrono::steady_clock::now() < begin + std::chrono::seconds(10)) {
    arrivals.accept_from(listeners.front().get());
    for (Arrival& one : arrivals.those_who_know()) known.push_back(std::move(one));
  }
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].greeting().rank, 5);
  EXPECT_EQ(known[0].greeting().purpose, Purpose::job_table);
  std::vector<pollfd> waiting;
  arrivals.add_to(waiting);
  EXPECT_EQ(waiting.size(), 2U);
  std::this_thread::sleep_until(arrivals.next_end() + std::chrono::milliseconds(100));
  EXPECT_TRUE(arrivals.those_who_know().empty());
  waiting.clear();
  arrivals.add_to(waiting);
  EXPECT_EQ(waiting.size(), 0U);
}

TEST(SideChannel, IsFoundByItsOwnUser) {
  const Answering rank("what it does");
  const auto found = ask_this_host(Purpose::rank_report, std::chrono::milliseconds(500));
  EXPECT_EQ(std::count_if(found.begin(), found.end(),
                          [](const auto& f) { return f.process == getpid() && f.answer == "what it does"; }),
            1);
}

/// Listens under the name of a side channel, and answers the first who asks. It does not return.
[[noreturn]] void pose_as_rank(int ready) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "lockstep-watchdog." + std::to_string(getpid());
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listens = bind(listener, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                       listen(listener, 4) == 0 && write(ready, "x", 1) == 1;
  const int connection = listens ? accept(listener, nullptr, nullptr) : -1;
  Greeting question;
  (void)!read(connection, &question, sizeof question);
  (void)!write(connection, "lies", 4);
  _exit(0);
}

TEST(SideChannel, OtherUsersAreNotBelieved) {
  if (geteuid() != 0) LOCKSTEP_SKIP(namespaces) << "only root can become another user";
  for (const bool is_other : {false, true}) {
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe(ready.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
      constexpr uid_t another = 65534;
      if (is_other && setuid(another) != 0) _exit(1);
      pose_as_rank(ready[1]);
    }
    close(ready[1]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    const auto found = ask_this_host(Purpose::job_table, std::chrono::milliseconds(300));
    const bool is_heard = std::any_of(found.begin(), found.end(), [](const auto& f) { return f.answer == "lies"; });
    EXPECT_EQ(is_heard, !is_other);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
  }
}

TEST(SideChannel, KeepsTheLastHeartbeatOfEachSender) {
  SideChannel receiver(false);
  const SideChannel sender(false);
  sender.send_heartbeat(receiver.address(), "3 first");
  sender.send_heartbeat(receiver.address(), "4 other");
  sender.send_heartbeat(receiver.address(), "3 last");
  for (int i = 0; i < 50 && receiver.heartbeats().size() < 2; ++i)
    receiver.serve(std::chrono::milliseconds(20), [](Purpose, bool) { return std::string(); });
  ASSERT_EQ(receiver.heartbeats().size(), 2U);
  EXPECT_EQ(receiver.heartbeats().at("3").text, "3 last");
  EXPECT_EQ(receiver.heartbeats().at("4").text, "4 other");
}

TEST(Processes, StatesAndWorkAreKnown) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  EXPECT_EQ(parent_of(child), getpid());
  kill(child, SIGSTOP);
  for (int i = 0; i < 200 && process_state(child) != "stopped"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(process_state(child), "stopped");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(process_state(child), "gone");
  std::atomic<bool> ends = false;
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::thread busy([&] {
    while (!ends) {
    }
  });
  for (int i = 0; i < 500 && after == before; ++i) {
    if (i == 0) before = after = work_of_other_threads();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    after = work_of_other_threads();
  }
  EXPECT_GT(after, before);
  ends = true;
  busy.join();
}

TEST(Processes, WhatOnlookersDoIsNoWork) {
  std::atomic<int> looks = 0;
  std::atomic<bool> ends = false;
  std::thread looking([&] {
    const Onlooker onlooker;
    while (!ends) ++looks;
  });
  while (looks == 0) std::this_thread::yield();
  const std::uint64_t before = work_of_other_threads();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // many ticks of the clock of processor times
  EXPECT_EQ(work_of_other_threads(), before);
  ends = true;
  looking.join();
}

}  // namespace
}  // namespace lockstep
