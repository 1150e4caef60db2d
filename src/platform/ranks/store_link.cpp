// SPDX-License-Identifier: Apache-2.0
// This file implements the exchanges of ranks over a key-value store.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/machine/launch.hpp"
#include "platform/node_memory/node_file.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"
#include "platform/ranks/rank_link.hpp"
#include "platform/ranks/socket_exchange.hpp"
#include "platform/ranks/tcp_control_link.hpp"
#include "platform/ranks/tcp_store.hpp"
#include "platform/ranks/thread_ranks.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using Seconds = std::chrono::duration<double>;

/// A rank that has come waits so much longer than the others for what rank 0 says, which came later than it.
constexpr Seconds grace{1};

Seconds left_until(Clock::time_point end) { return std::max(Seconds(end - Clock::now()), Seconds(0)); }
Clock::time_point after(Seconds time) { return Clock::now() + std::chrono::duration_cast<Clock::duration>(time); }

// What rank 0 says to all, in its first byte.
constexpr char all_have_come = '+';
constexpr char some_are_missing = '-';

/// Ranks that exchange texts over a store: each writes its own, rank 0 reads them all, and writes them in one value.
class StoreLink final : public RankSet::Link {
 public:
  StoreLink(std::shared_ptr<KeyValueStore> store, std::string its_name) : store_(std::move(store)) {
    name = std::move(its_name);
  }

  [[nodiscard]] std::vector<std::int64_t> all_gather(std::int64_t mine) override {
    std::vector<std::int64_t> numbers;
    for (const std::string& text : all_gather(std::to_string(mine))) numbers.push_back(std::stoll(text));
    return numbers;
  }

  [[nodiscard]] std::vector<std::string> all_gather(std::string_view mine) override {
    const std::string key = next_key();
    store_->set(of_rank(key, rank.value), std::string(mine));
    return rank.value == 0 ? collect(key) : await_collected(key);
  }

  [[nodiscard]] std::vector<std::string> gather(std::string_view mine, Rank root) override {
    std::vector<std::string> all = all_gather(mine);
    return rank == root ? all : std::vector<std::string>{};
  }

  [[nodiscard]] std::string broadcast(std::string_view value, Rank root) override {
    const std::string key = next_key();
    if (rank == root) {
      store_->set(key, std::string(value));
      return std::string(value);
    }
    std::optional<std::string> text = await(key, wait_time());
    if (!text) fail({root.value});
    return *std::move(text);
  }

  void barrier() override { (void)all_gather(std::string_view()); }

  [[nodiscard]] std::unique_ptr<Link> dup() override {
    check();
    auto copy = std::make_unique<StoreLink>(store_, name + "/d" + std::to_string(++descendants_));
    copy->inherit(*this, rank, size, members);
    return copy;
  }

  [[nodiscard]] std::unique_ptr<Link> split(std::optional<int> color, int key) override {
    const std::string number = std::to_string(++descendants_);
    std::vector<std::pair<int, int>> part;  // key, rank
    const auto all = all_gather(json{color.value_or(-1), key}.dump());
    for (int other = 0; other < size; ++other) {
      const json its = json::parse(all[static_cast<std::size_t>(other)]);
      if (its.at(0) == color) part.emplace_back(its.at(1).get<int>(), other);
    }
    if (!color) return nullptr;
    std::sort(part.begin(), part.end());
    std::vector<int> ranks;
    for (const auto& [its_key, other] : part) ranks.push_back(other);
    const auto mine = std::find(ranks.begin(), ranks.end(), rank.value) - ranks.begin();
    auto link = std::make_unique<StoreLink>(store_, name + "/s" + number + "." + std::to_string(*color));
    link->inherit(*this, Rank{static_cast<int>(mine)}, static_cast<int>(ranks.size()), chosen(*members, ranks));
    return link;
  }

  void close() override {}

  [[nodiscard]] std::unique_ptr<ControlLink> make_control_link(const RankSet& set) override {
    if (shared_by_threads == nullptr) return make_tcp_control_link(set);
    return std::make_unique<ThreadControlLink>(
        share<ThreadMailboxes>([this] { return std::make_shared<ThreadMailboxes>(size); }), rank);
  }

  [[nodiscard]] std::unique_ptr<Exchange> make_exchange(const RankSet& set) override {
    return make_socket_exchange(set);
  }

  /// Takes over what sets of one job have in common.
  void inherit(const Link& from, Rank its_rank, int its_size, std::shared_ptr<const RankSet::Members> its_members) {
    rank = its_rank;
    size = its_size;
    members = std::move(its_members);
    node_files = from.node_files;
    shared_by_threads = from.shared_by_threads;
    tasks = from.tasks;
    deadline = from.deadline;
  }

 private:
  [[nodiscard]] const std::string& host() const { return members->hosts[static_cast<std::size_t>(rank.value)]; }
  static std::string of_rank(const std::string& key, int number) { return key + '/' + std::to_string(number); }
  [[nodiscard]] Seconds wait_time() const { return deadline + tasks->extra(); }

  /// @throws the error of an earlier failed step
  void check() const {
    if (failure) throw Error(*failure);
  }
  std::string next_key() {
    check();
    return name + '/' + std::to_string(++exchanges_);
  }

  /// Waits for a value, and tells the watchdog that this rank does.
  std::optional<std::string> await(const std::string& key, Seconds at_most) {
    constexpr Seconds between_polls{1};
    const Clock::time_point end = after(at_most);
    for (;;) {
      const Seconds left = left_until(end);
      std::optional<std::string> text = store_->get(key, std::min(left, between_polls));
      if (text || left <= between_polls) return text;
      tasks->note_poll();
    }
  }

  /// Rank 0 reads the texts of all, and passes them on.
  std::vector<std::string> collect(const std::string& key) {
    const Clock::time_point end = after(wait_time());
    std::vector<std::string> all;
    std::vector<int> missing;
    for (int other = 0; other < size; ++other) {
      std::optional<std::string> text = await(of_rank(key, other), left_until(end));
      if (!text) missing.push_back(other);
      all.push_back(std::move(text).value_or(""));
    }
    if (!missing.empty()) {
      store_->set(key, some_are_missing + json(missing).dump());
      fail(std::move(missing));
    }
    std::string text{all_have_come};
    for (const std::string& one : all) text += std::to_string(one.size()) + ' ' + one;
    store_->set(key, text);
    return all;
  }

  std::vector<std::string> await_collected(const std::string& key) {
    std::optional<std::string> text = await(key, wait_time());
    if (!text) {
      std::vector<int> missing;
      for (int other = 0; other < size; ++other)
        if (!store_->get(of_rank(key, other), Seconds(0))) missing.push_back(other);
      const bool waits_for_rank_zero = !missing.empty() && missing.front() == 0;
      if (!waits_for_rank_zero) text = await(key, wait_time() + grace);  // it came later, and says who is missing
      if (!text) fail(missing.empty() ? std::vector<int>{0} : missing);
    }
    if (text->front() == some_are_missing) fail(json::parse(text->substr(1)).get<std::vector<int>>(), true);
    std::vector<std::string> all;
    for (std::size_t at = 1; at < text->size();) {
      const std::size_t space = text->find(' ', at);
      const std::size_t length = std::stoul(text->substr(at, space - at));
      all.push_back(text->substr(space + 1, length));
      at = space + 1 + length;
    }
    return all;
  }

  /// @param is_told  whether another rank has found it out, and reports it
  [[noreturn]] void fail(std::vector<int> missing, bool is_told = false) {
    const auto host_of = [this](int other) { return members->hosts[static_cast<std::size_t>(other)]; };
    const std::string text = rank_names(missing, host_of) + (missing.size() == 1 ? " has not " : " have not ") +
                             tasks->undone() + " within " + format_text("%.3g s", wait_time().count());
    Error error(ErrorCode::timeout, text, {.rank = rank.value, .host = host(), .peers = std::move(missing)});
    failure = is_told ? error.as_consequence() : error;
    throw Error(*failure);
  }

  std::shared_ptr<KeyValueStore> store_;
  std::int64_t exchanges_ = 0;
  std::int64_t descendants_ = 0;
};

/// Finds out that all ranks of this start of the job are there, though the store may hold what another start has left:
/// rank 0 answers each by the random word that only this start knows. @return a word that all ranks of this start have
class Meeting {
 public:
  Meeting(KeyValueStore& store, const StoreRank& place, Seconds deadline)
      : store_(store), place_(place), deadline_(deadline), end_(after(deadline)) {}

  std::string meet() { return place_.rank.value == 0 ? receive_all() : join(); }

 private:
  [[nodiscard]] std::string key(std::string_view what, const std::string& of) const {
    return place_.job + '/' + std::string(what) + '/' + of;
  }

  std::string receive_all() {
    std::vector<int> missing;
    for (int other = 1; other < place_.size; ++other) missing.push_back(other);
    constexpr std::chrono::milliseconds between_looks{2};
    std::map<int, std::string> answered;
    while (!missing.empty()) {
      std::erase_if(missing, [&](int other) { return has_joined(other, answered); });
      if (missing.empty()) break;
      std::this_thread::sleep_for(between_looks);
      if (Clock::now() > end_) {
        const std::string text = rank_names(missing, [](int) { return std::string(); }) +
                                 (missing.size() == 1 ? " has not" : " have not") + " joined in starting up within " +
                                 format_text("%.3g s", deadline_.count());
        give_up(Error(ErrorCode::timeout, text, {.rank = 0, .host = host_name(), .peers = missing}));
      }
    }
    store_.set(key("go", own_), std::string{all_have_come});
    return own_;
  }

  /// Looks for what that rank has written, and answers it, without waiting.
  /// @param answered  the word of each rank that has been answered
  /// @throws Error{mismatch} if that rank believes in another size
  bool has_joined(int other, std::map<int, std::string>& answered) {
    const auto hello = store_.get(key("hello", std::to_string(other)), Seconds(0));
    if (!hello) return false;
    const json its = json::parse(*hello);
    const auto word = its.at(0).get<std::string>();
    if (answered[other] != word) store_.set(key("accepted", word), own_);
    answered[other] = word;
    if (!store_.get(key("joined", own_ + word), Seconds(0))) return false;
    if (its.at(1) == place_.size) return true;
    const std::string text = "rank " + std::to_string(other) + " on " + its.at(2).get<std::string>() +
                             " belongs to a job of " + std::to_string(its.at(1).get<int>()) +
                             " ranks, rank 0 to one of " + std::to_string(place_.size) +
                             ": start all ranks with the same size";
    give_up(Error(ErrorCode::mismatch, text, {.rank = 0, .host = host_name(), .peers = {other}}));
  }

  [[noreturn]] void give_up(const Error& error) {
    store_.set(key("go", own_), some_are_missing + to_text(error));
    throw Error(error);
  }

  std::string join() {
    const std::string number = std::to_string(place_.rank.value);
    store_.set(key("hello", number), json{own_, place_.size, host_name()}.dump());
    const auto of_zero = store_.get(key("accepted", own_), deadline_);
    const ErrorContext here{.rank = place_.rank.value, .host = host_name(), .peers = {0}};
    if (!of_zero)
      throw Error(ErrorCode::timeout,
                  "rank 0 has not joined in starting up within " + format_text("%.3g s", deadline_.count()), here);
    store_.set(key("joined", *of_zero + own_), "");
    const auto verdict = store_.get(key("go", *of_zero), deadline_ + grace);
    if (!verdict) throw Error(ErrorCode::timeout, "rank 0 has ended, or takes too long, in starting up", here);
    if (verdict->front() == all_have_come) return *of_zero;
    const Error of_rank_zero = error_from_text(verdict->substr(1));
    throw Error(of_rank_zero.code(), of_rank_zero.message(), here).as_consequence();
  }

  KeyValueStore& store_;
  const StoreRank& place_;
  Seconds deadline_;
  Clock::time_point end_;
  std::string own_ = random_word();
};

void require_rank(Rank rank, int size) {
  if (rank.value >= 0 && rank.value < size) return;
  throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank.value) + " of " + std::to_string(size) +
                                               ": ranks are counted from 0 and are less than their number");
}

const char* required(const char* name) {
  const char* const value = std::getenv(name);
  if (value != nullptr && *value != '\0') return value;
  throw Error(ErrorCode::invalid_argument,
              std::string(name) +
                  " is not set: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; other "
                  "launchers, or the program's user, have to");
}

int number_in(const char* name, int least, int most) {
  const char* const text = required(name);
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end == '\0' && value >= least && value <= most) return static_cast<int>(value);
  throw Error(ErrorCode::invalid_argument, std::string(name) + "=" + echo(text) + " is no number from " +
                                               std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

RankSet from_store(std::shared_ptr<KeyValueStore> store, const StoreRank& place, Seconds deadline) {
  require_deadline(deadline);
  require_rank(place.rank, place.size);
  const std::string start = Meeting(*store, place, deadline).meet();
  auto link = std::make_unique<StoreLink>(std::move(store), place.job + '/' + start);
  auto members = std::make_shared<RankSet::Members>();
  members->hosts.resize(static_cast<std::size_t>(place.size));
  members->hosts[static_cast<std::size_t>(place.rank.value)] = host_name();
  link->rank = place.rank;
  link->size = place.size;
  link->members = members;
  link->node_files = std::make_shared<NodeFiles>();
  link->tasks = std::make_shared<Tasks>();
  link->deadline = deadline;
  RankSet set(std::move(link));
  const Phase phase(set, "starting up");
  std::vector<std::string> nodes;
  std::vector<int> node_of_rank;
  const std::vector<std::string> all =
      set.link().all_gather(json{host_name(), machine_identity("") + ' ' + host_name()}.dump());
  members->hosts.clear();
  for (const std::string& text : all) {
    const json its = json::parse(text);
    members->hosts.push_back(its.at(0));
    const auto known = std::find(nodes.begin(), nodes.end(), its.at(1).get<std::string>());
    node_of_rank.push_back(static_cast<int>(known - nodes.begin()));
    if (known == nodes.end()) nodes.push_back(its.at(1));
  }
  members->shape = number_nodes(node_of_rank);
  return set;
}

RankSet from_exchange(Rank rank, int size,
                      const std::function<void(std::span<const std::byte> mine, std::span<std::byte> all)>& all_gather,
                      Seconds deadline) {
  require_deadline(deadline);
  require_rank(rank, size);
  // Rank 0 tells where it serves a store. Its first address that answers is used.
  constexpr std::size_t most = 256;
  std::shared_ptr<KeyValueStore> store;
  std::array<std::byte, most> mine{};
  if (rank.value == 0) {
    TcpAddress address{.secret = random_word()};
    const OwnAddresses own = own_addresses();
    store = serve_store(own.are_chosen ? own.hosts : std::vector<std::string>(), address.tcp);
    address.hosts = own.hosts;
    std::string text = to_text(address);
    while (text.size() >= most) {
      address.hosts.pop_back();
      text = to_text(address);
    }
    std::memcpy(mine.data(), text.data(), text.size());
  }
  std::vector<std::byte> all(most * static_cast<std::size_t>(size));
  all_gather(mine, all);
  const TcpAddress address = tcp_address_from(std::string(reinterpret_cast<const char*>(all.data())));
  const Clock::time_point end = after(deadline);
  for (std::size_t i = 0; store == nullptr; i = (i + 1) % address.hosts.size()) {
    try {
      store = make_tcp_store(address.hosts.at(i), address.tcp, false, std::min(Seconds(0.5), deadline));
    } catch (const Error&) {
      if (Clock::now() > end) throw;
    }
  }
  return from_store(std::move(store), {.rank = rank, .size = size, .job = address.secret}, deadline);
}

RankSet from_environment(Seconds deadline) {
  constexpr int most_ranks = 1 << 20;
  const StoreRank place{
      .rank = {number_in("RANK", 0, most_ranks)},
      .size = number_in("WORLD_SIZE", 1, most_ranks),
      // torchrun serves one store to all starts of a job.
      .job = std::string("lockstep/") +
             (std::getenv("TORCHELASTIC_RESTART_COUNT") == nullptr ? "0" : std::getenv("TORCHELASTIC_RESTART_COUNT"))};
  const char* const agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_served = agent != nullptr && std::string_view(agent) == "True";
  const int port = number_in("MASTER_PORT", 1, 65535);
  return from_store(make_tcp_store(required("MASTER_ADDR"), static_cast<std::uint16_t>(port),
                                   !is_served && place.rank.value == 0, deadline),
                    place, deadline);
}

}  // namespace lockstep
