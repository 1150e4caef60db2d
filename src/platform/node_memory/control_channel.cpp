// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/control_channel.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "platform/node_memory/control_board.hpp"

namespace lockstep {
namespace {

/// `ControlBoard::closing` holds a number of operations and, in the lowest bits, the rank plus one. It is 0 until a
/// rank has closed.
constexpr unsigned rank_bits = 24;

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace

ControlChannel::ControlChannel(Member member, std::shared_ptr<NodeMemory> word, std::unique_ptr<ControlLink> link)
    : member_(std::move(member)),
      word_(std::move(word)),
      link_(std::move(link)),
      versions_seen_(member_.node.size()),
      own_board_(&board(word_->rank())),
      own_calls_(&own_board_->calls) {
  for (int rank = 0; rank < member_.ranks; ++rank)
    if (!contains(member_.node, rank)) elsewhere_.push_back(rank);
  questions_.reserve(static_cast<std::size_t>(member_.ranks));  // a step of training that waits allocates nothing
}

/// A rank that has left in order must not seem lost to ranks of its node that have not left.
ControlChannel::~ControlChannel() {
  if (has_left_) word_->close();
}

ControlBoard& ControlChannel::board(int local_rank) const {
  return *reinterpret_cast<ControlBoard*>(word_->control(local_rank));
}

void ControlChannel::raise(ErrorCode code, std::string_view reason, const std::vector<int>& peers) noexcept {
  try {
    word_->give_up(to_text(Alarm{code, member_.rank.value, peers, member_.host, std::string(reason)}));
  } catch (...) {  // no memory for the text
    word_->give_up("");
  }
}

void ControlChannel::raise(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const Error& own) {
    if (!own.is_consequence()) raise(own.code(), own.message(), own.context().peers);
  } catch (const std::exception& other) {
    raise(ErrorCode::transport, other.what(), {});
  } catch (...) {
    raise(ErrorCode::transport, "something was thrown that is no std::exception", {});
  }
}

void ControlChannel::tell_now() noexcept {
  if (link_ == nullptr) return;
  try {
    poll_messages();
    const std::lock_guard turn(turn_);
    link_->push();
  } catch (const std::exception&) {  // nobody can be notified then
  }
}

void ControlChannel::tell_from_another_thread() noexcept {
  constexpr std::chrono::milliseconds at_most{20};  // the owner's longest turn, unless its thread is stuck in one
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock turn(turn_, std::try_to_lock);
  while (!turn.owns_lock() && std::chrono::steady_clock::now() - begin < at_most) {
    std::this_thread::yield();
    static_cast<void>(turn.try_lock());
  }
  const auto alarm = word_->given_up();
  if (!turn.owns_lock() || link_ == nullptr || !alarm || !link_->may_be_used_by_any_thread()) return;
  try {
    send_alarm(*alarm);
    link_->push();
  } catch (const std::exception&) {  // nobody can be notified then
  }
}

Error ControlChannel::error_of(const LostPeer& lost) const {
  Alarm alarm = alarm_from(lost.reason);
  if (alarm.rank < 0) alarm.rank = member_.node[static_cast<std::size_t>(lost.rank)];
  if (alarm.rank == member_.rank.value) {
    return Error(alarm.code, alarm.reason, {.rank = member_.rank.value, .host = member_.host, .peers = alarm.peers});
  }
  std::vector<int> peers{alarm.rank};
  for (const int peer : alarm.peers)
    if (peer != alarm.rank && peer != member_.rank.value) peers.push_back(peer);
  const std::string who = "rank " + std::to_string(alarm.rank) + " on " + alarm.host;
  return Error(alarm.code, who + " has given up: " + alarm.reason,
               {.rank = member_.rank.value, .host = member_.host, .peers = std::move(peers)})
      .as_consequence();
}

Error ControlChannel::closed_after(std::uint64_t closing, std::uint64_t operations) const {
  const int who = static_cast<int>(closing & ((std::uint64_t{1} << rank_bits) - 1)) - 1;
  return Error(ErrorCode::mismatch,
               "rank " + std::to_string(who) + " closed the communicator after " +
                   std::to_string(closing >> rank_bits) + " operations; this rank has submitted " +
                   std::to_string(operations) +
                   ": do all ranks run the same number of steps, and does none leave its function early?",
               {.rank = member_.rank.value, .host = member_.host, .peers = {who}});
}

std::optional<Error> ControlChannel::early_close(std::uint64_t operations) const {
  const std::uint64_t closing = board(0).closing.load(std::memory_order_acquire);
  if (closing == 0 || operations <= closing >> rank_bits) return std::nullopt;
  return closed_after(closing, operations);
}

std::optional<Error> ControlChannel::uneven_close(std::uint64_t operations) const {
  const std::uint64_t closing = board(0).closing.load(std::memory_order_acquire);
  if (closing == 0 || operations == closing >> rank_bits) return std::nullopt;
  return closed_after(closing, operations);
}

std::optional<Error> ControlChannel::ended_peer() const {
  const std::optional<LostPeer> lost = word_->lost_peer();
  if (!lost || lost->gave_up) return std::nullopt;
  const int rank = member_.node[static_cast<std::size_t>(lost->rank)];
  return Error(ErrorCode::transport, "rank " + std::to_string(rank) + ", a process on this host, has ended",
               {.rank = member_.rank.value, .host = member_.host, .peers = {rank}});
}

void ControlChannel::receive_all() {
  while (const auto text = link_->receive()) read(*text);
}

void ControlChannel::read(const std::string& text) {
  std::visit(Overloaded{[this](const AlarmText& alarm) { word_->give_up(alarm.text); },
                        [this](const Closing& closing) {
                          left_elsewhere_ += closing.ranks;
                          calls_elsewhere_[closing.rank] = closing.calls;
                          if (!has_left_) note_closing(closing.operations, closing.rank);
                        },
                        [this](const Quiet& quiet) { quiet_elsewhere_ += quiet.ranks; },
                        [this](const Asking& asking) {
                          if (!asking.calls.empty()) calls_elsewhere_[asking.question.rank] = asking.calls;
                          note(asking.question);
                        },
                        [this](const Inquiry& inquiry) {
                          const bool is_new = !contains(inquirers_elsewhere_, inquiry.rank);
                          if (is_new && !has_left_) inquirers_elsewhere_.push_back(inquiry.rank);
                        },
                        [this](const Answer& answer) { answers_elsewhere_[answer.rank] = answer.standing; }},
             message_from(text));
}

void ControlChannel::send_alarm(const LostPeer& alarm) {
  // If the alarm came from another node, all ranks have received it from there.
  if (std::exchange(has_told_, true) || contains(elsewhere_, alarm_from(alarm.reason).rank)) return;
  link_->send(elsewhere_, to_text(AlarmText{alarm.reason}), ControlLink::Delivery::plain);
}

void ControlChannel::poll_messages() {
  const std::lock_guard turn(turn_);
  if (has_told_) return;
  read_boards();
  if (link_ == nullptr) return;
  if (const auto alarm = word_->given_up()) {
    send_alarm(*alarm);
  } else {
    receive_all();
  }
}

void ControlChannel::note_closing(std::uint64_t operations, int rank) const {
  std::atomic<std::uint64_t>& closing = board(0).closing;
  const std::uint64_t mine = operations << rank_bits | (static_cast<std::uint64_t>(rank) + 1);
  std::uint64_t first = closing.load(std::memory_order_relaxed);
  while ((first == 0 || mine < first) && !closing.compare_exchange_weak(first, mine, std::memory_order_release)) {
  }
}

void ControlChannel::leave(std::uint64_t operations) {
  note_closing(operations, member_.rank.value);
  has_left_ = true;
  const std::lock_guard turn(turn_);
  if (link_ == nullptr || board(0).leaving.fetch_add(1, std::memory_order_relaxed) > 0) return;
  link_->send(elsewhere_, to_text(Closing{operations, member_.rank.value, member_.node.size(), last_calls()}),
              ControlLink::Delivery::plain);
}

bool ControlChannel::has_somebody_left() const { return board(0).closing.load(std::memory_order_acquire) != 0; }

/// Each node sends two messages to each rank of the others, and none arrives after these: a question has been received
/// before its rank is quiet, and a rank that has left raises no alarm. A message that is under way to an MPI
/// communicator when that is freed could be received by the next one with the same context ID.
bool ControlChannel::is_everything_received() {
  receive_all();
  if (!is_quiet_ && link_->is_acknowledged()) {
    is_quiet_ = true;
    const std::size_t quiet = board(0).quiet.fetch_add(1, std::memory_order_relaxed) + 1;
    if (quiet == member_.node.size()) link_->send(elsewhere_, to_text(Quiet{quiet}), ControlLink::Delivery::plain);
    word_->close();
  }
  return is_quiet_ && left_elsewhere_ == elsewhere_.size() && quiet_elsewhere_ == elsewhere_.size();
}

bool ControlChannel::have_all_left() {
  const std::lock_guard turn(turn_);
  if (link_ == nullptr) return true;
  if (link_->wants_all_received()) return is_everything_received();
  receive_all();
  return true;
}

bool ControlChannel::close() {
  if (!have_all_left()) return false;
  const std::lock_guard turn(turn_);
  if (link_ != nullptr) std::exchange(link_, nullptr)->close();
  word_->close();
  return true;
}

}  // namespace lockstep
