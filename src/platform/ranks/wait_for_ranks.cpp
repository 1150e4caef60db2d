// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/wait_for_ranks.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "platform/machine/launch.hpp"

namespace lockstep {
namespace {

constexpr std::ptrdiff_t most_listeners = 8;
constexpr char separator = '\0';

// What a text is for, its first character.
constexpr char question = 'Q';  // the sender's deadline has passed; receivers that wait too answer
constexpr char answer = 'A';    // the sender waits
constexpr char gone_on = 'G';   // the sender's call has completed, so it takes its question back
constexpr char verdict = 'V';   // the ranks named first are missing

bool is_one(int rank, const std::vector<int>& of) { return std::find(of.begin(), of.end(), rank) != of.end(); }

[[noreturn]] void repeat(const std::string& said) {
  const std::size_t end = said.find(';');
  std::istringstream ranks(said.substr(0, end));
  std::vector<int> missing;
  for (int rank = 0; ranks >> rank;) missing.push_back(rank);
  throw Error(ErrorCode::timeout, said.substr(end + 1), {.peers = std::move(missing)}).as_consequence();
}

}  // namespace

struct WaitForRanks::Text {
  char kind;
  int from = 0;
  std::uint64_t group = 0;  // the group in which the sender waits
  std::uint64_t wait = 0;   // number of the sender's wait; of an answer, that of the question
  std::string host;
  std::string text;

  [[nodiscard]] std::string written() const {
    std::ostringstream out;
    out << kind << from << ' ' << group << ' ' << wait << separator << host << separator << text;
    return out.str();
  }
  /// @return nothing if it is a text of another kind
  static std::optional<Text> from_text(const std::string& text) {
    const std::size_t first = text.find(separator);
    const std::size_t second = first == std::string::npos ? first : text.find(separator, first + 1);
    if (second == std::string::npos || std::string("QAGV").find(text.front()) == std::string::npos) return std::nullopt;
    Text found{
        .kind = text.front(), .host = text.substr(first + 1, second - first - 1), .text = text.substr(second + 1)};
    std::istringstream(text.substr(1, first - 1)) >> found.from >> found.group >> found.wait;
    return found;
  }
};

WaitForRanks::WaitForRanks(ControlLink& link, Waiter waiter, const Group& group, std::uint64_t number, Time now)
    : link_(link),
      waiter_(std::move(waiter)),
      members_(group.members),
      deadline_(group.deadline + waiter_.tasks.extra()),
      grace_(std::clamp(deadline_ / 4, Seconds(0.5), Seconds(1))),
      group_(group.number),
      number_(number),
      now_(now),
      begin_(now) {}

bool WaitForRanks::advance(Time now, bool is_complete) {
  if (is_complete) take_questions_back();
  leave_out_own_absence(now);
  while (const auto text = link_.receive())
    if (const auto known = Text::from_text(*text)) read(*known);
  if (is_complete) return may_go_on();
  if (!asked_at_ && (is_late() || (is_listener() && !questions_.empty()))) ask();
  if (asked_at_) judge();
  return false;
}

std::vector<int> WaitForRanks::listeners() const {
  return {members_.begin(), members_.begin() + std::min(std::ssize(members_), most_listeners)};
}

bool WaitForRanks::is_listener() const { return is_one(waiter_.rank, listeners()); }

/// Extends deadlines by the time in which this process was stopped, because it did not wait then.
void WaitForRanks::leave_out_own_absence(Time now) {
  const auto away = now - std::exchange(now_, now);
  if (away > Seconds(0.5)) begin_ += away;
  if (away > Seconds(0.5) && asked_at_) *asked_at_ += away;
}

void WaitForRanks::tell(const std::set<int>& ranks, char kind, std::uint64_t wait, const std::string& text) {
  if (ranks.empty()) return;
  const Text said{kind, waiter_.rank, group_, wait, waiter_.host, text};
  link_.send({ranks.begin(), ranks.end()}, said.written(), ControlLink::Delivery::plain);
}

void WaitForRanks::read(const Text& text) {
  const bool is_of_this_group = text.group == group_;
  switch (text.kind) {
    case question:
      tell({text.from}, answer, text.wait, waiter_.tasks.what());
      if (is_of_this_group) questions_.insert(text.from);
      callers_.insert(text.from);
      others_[text.from] = {text.host, text.text, is_of_this_group};
      return;
    case answer:
      if (text.wait == number_) others_[text.from] = {text.host, text.text, is_of_this_group};
      return;
    case verdict:
      if (is_of_this_group || asked_.contains(text.from)) repeat(text.text);
      [[fallthrough]];
    default:
      others_.erase(text.from);
      questions_.erase(text.from);
      callers_.erase(text.from);
  }
}

void WaitForRanks::ask() {
  asked_at_ = now_;
  const std::vector<int> asked = is_listener() ? members_ : listeners();
  asked_.insert(asked.begin(), asked.end());
  asked_.erase(waiter_.rank);
  tell(asked_, question, number_, waiter_.tasks.what());
}

/// Gives the verdict, or waits on. A listener waits for one grace period, and for two more if an earlier listener
/// also waits and can give the verdict; so does a rank that is no listener.
void WaitForRanks::judge() {
  if (!has_passed(*asked_at_, grace_)) return;
  if (!is_late() && questions_.empty()) return take_questions_back();
  const bool is_first = is_listener() && !does_earlier_listener_wait();
  if (!is_first && !has_passed(*asked_at_, 3 * grace_)) return;
  const Error error = who_is_missing();
  std::string said;
  for (const int peer : error.context().peers) said += std::to_string(peer) + ' ';
  std::set<int> to = callers_;
  to.insert(asked_.begin(), asked_.end());
  tell(to, verdict, number_, said + ';' + error.message());
  throw Error(error);
}

bool WaitForRanks::does_earlier_listener_wait() const {
  const std::vector<int> all = listeners();
  return std::any_of(all.begin(), std::find(all.begin(), all.end(), waiter_.rank), [this](int rank) {
    const auto found = others_.find(rank);
    return found != others_.end() && found->second.waits_here;
  });
}

/// A rank that has asked may have given up, unless it takes its question back.
bool WaitForRanks::may_go_on() {
  if (!completed_at_) completed_at_ = now_;
  if (questions_.empty()) return true;
  if (has_passed(*completed_at_, 3 * grace_)) throw Error(ErrorCode::timeout, complaint({}, false));
  return false;
}

void WaitForRanks::take_questions_back() {
  tell(asked_, gone_on, number_, waiter_.tasks.what());
  asked_.clear();
  asked_at_.reset();
}

std::string WaitForRanks::host_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index < waiter_.hosts.size()) return waiter_.hosts[index];
  const auto found = others_.find(rank);
  if (found == others_.end()) return rank == waiter_.rank ? waiter_.host : "";
  return found->second.host;
}

std::string WaitForRanks::names_of(const std::vector<int>& ranks) const {
  return rank_names(ranks, [this](int rank) { return host_of(rank); });
}

/// Returns this rank and those that have answered.
std::vector<int> WaitForRanks::present() const {
  std::set<int> ranks{waiter_.rank};
  for (const auto& [rank, other] : others_) ranks.insert(rank);
  return {ranks.begin(), ranks.end()};
}

Error WaitForRanks::who_is_missing() const {
  std::vector<int> missing;
  std::map<std::string, std::vector<int>> elsewhere;  // ranks by the task for which they wait
  for (const int rank : asked_) {
    const auto found = others_.find(rank);
    if (found == others_.end()) {
      missing.push_back(rank);
    } else if (!found->second.waits_here) {
      elsewhere[found->second.what].push_back(rank);
    }
  }
  std::string others;
  std::vector<int> peers = missing;
  for (const auto& [what, ranks] : elsewhere) {
    others += "; " + names_of(ranks) + (ranks.size() == 1 ? " waits while " : " wait while ") + what;
    if (missing.empty()) peers.insert(peers.end(), ranks.begin(), ranks.end());
  }
  return Error(ErrorCode::timeout, complaint(missing, !elsewhere.empty()) + others, {.peers = std::move(peers)});
}

std::string WaitForRanks::complaint(const std::vector<int>& missing, bool are_some_elsewhere) const {
  const std::string limit = format_text("%.3g s", deadline_.count());
  if (missing.empty() && are_some_elsewhere) {
    return "the ranks wait for each other in different places: " + names_of({waiter_.rank}) + " has waited for " +
           limit + " while " + waiter_.tasks.what();
  }
  if (missing.empty())
    return "all ranks took part in " + waiter_.tasks.what() + ", but some later than " + limit + " after others";
  std::string text = names_of(missing) + (missing.size() == 1 ? " has not " : " have not ") + waiter_.tasks.undone() +
                     " within " + limit;
  if (waiter_.hosts.empty()) text += "; " + names_of(present()) + " came";
  const std::string stopped = stopped_neighbors();
  return stopped.empty() ? text : text + "; " + stopped;
}

}  // namespace lockstep
