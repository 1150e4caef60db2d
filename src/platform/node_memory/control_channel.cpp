// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/control_channel.hpp"

#include <algorithm>
#include <utility>

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

ControlChannel::ControlChannel(Member member, std::shared_ptr<NodeMemory> word, std::unique_ptr<Post> post)
    : member_(std::move(member)),
      word_(std::move(word)),
      post_(std::move(post)),
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
  if (post_ == nullptr) return;
  try {
    poll_messages();
    post_->push();
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

void ControlChannel::ask(const Call& mine, const std::vector<int>& awaited) {
  board(word_->rank()).ask(mine);
  board(0).questions.fetch_add(1, std::memory_order_release);
  std::vector<int> far;
  for (const int rank : awaited)
    if (contains(elsewhere_, rank)) far.push_back(rank);
  if (far.empty()) return;
  post_->send(far, to_text(Asking{{member_.rank.value, mine}, last_calls()}), Post::Delivery::acknowledged);
}

std::optional<std::size_t> ControlChannel::local_rank_of(int rank) const {
  const auto found = std::find(member_.node.begin(), member_.node.end(), rank);
  if (found == member_.node.end()) return std::nullopt;
  return static_cast<std::size_t>(found - member_.node.begin());
}

/// Returns the last calls, limited to a number that fits into a message.
std::vector<ControlChannel::Call> ControlChannel::last_calls() const {
  constexpr std::uint64_t most = 16;
  const std::uint64_t count = own_calls_->count();
  std::vector<Call> calls;
  for (std::uint64_t number = count - std::min(count, most); number < count; ++number)
    if (const auto call = own_calls_->at(number)) calls.push_back({number, call->what, call->hash});
  return calls;
}

std::uint64_t ControlChannel::calls_of(int rank) const {
  if (const auto local = local_rank_of(rank)) return board(static_cast<int>(*local)).calls.count();
  const auto told = calls_elsewhere_.find(rank);
  return told == calls_elsewhere_.end() || told->second.empty() ? 0 : told->second.back().number + 1;
}

std::optional<ControlChannel::Call> ControlChannel::call_of(int rank, std::uint64_t number) const {
  if (const auto local = local_rank_of(rank)) {
    const auto call = board(static_cast<int>(*local)).calls.at(number);
    if (!call) return std::nullopt;
    return Call{number, call->what, call->hash};
  }
  const auto told = calls_elsewhere_.find(rank);
  if (told == calls_elsewhere_.end()) return std::nullopt;
  const auto is_it = [number](const Call& call) { return call.number == number; };
  const auto found = std::find_if(told->second.begin(), told->second.end(), is_it);
  if (found == told->second.end()) return std::nullopt;
  return *found;
}

void ControlChannel::inquire(int rank) {
  if (const auto local = local_rank_of(rank)) {
    inquiries_[rank] = board(static_cast<int>(*local)).inquiries.fetch_add(1, std::memory_order_release) + 1;
    return;
  }
  answers_elsewhere_[rank].reset();
  post_->send({rank}, to_text(Inquiry{member_.rank.value}), Post::Delivery::acknowledged);
}

std::optional<ControlChannel::Standing> ControlChannel::answer_of(int rank) const {
  if (const auto local = local_rank_of(rank)) {
    const auto inquiry = inquiries_.find(rank);
    if (inquiry == inquiries_.end()) return std::nullopt;
    return board(static_cast<int>(*local)).read_answer(inquiry->second);
  }
  const auto answer = answers_elsewhere_.find(rank);
  return answer == answers_elsewhere_.end() ? std::nullopt : answer->second;
}

bool ControlChannel::is_inquired() const {
  return !inquirers_elsewhere_.empty() || own_board_->inquiries.load(std::memory_order_relaxed) != inquiries_answered_;
}

void ControlChannel::answer(const Standing& standing) {
  const std::uint32_t inquiries = own_board_->inquiries.load(std::memory_order_acquire);
  if (std::exchange(inquiries_answered_, inquiries) != inquiries) own_board_->answer(standing, inquiries);
  if (inquirers_elsewhere_.empty()) return;
  post_->send(std::exchange(inquirers_elsewhere_, {}), to_text(Answer{member_.rank.value, standing}),
              Post::Delivery::acknowledged);
}

void ControlChannel::note(const Question& question) {
  const auto earlier =
      std::find_if(questions_.begin(), questions_.end(), [&](const Question& q) { return q.rank == question.rank; });
  if (earlier == questions_.end()) {
    questions_.push_back(question);
  } else {
    *earlier = question;
  }
}

void ControlChannel::read_boards() {
  const std::uint32_t asked = board(0).questions.load(std::memory_order_acquire);
  if (std::exchange(questions_seen_, asked) == asked) return;
  for (std::size_t local = 0; local < member_.node.size(); ++local) {
    const auto call = board(static_cast<int>(local)).read(versions_seen_[local]);
    if (call && member_.node[local] != member_.rank.value) note({member_.node[local], *call});
  }
}

void ControlChannel::receive_all() {
  while (const auto text = post_->receive()) read(*text);
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

void ControlChannel::poll_messages() {
  if (has_told_) return;
  read_boards();
  if (post_ == nullptr) return;
  if (const auto alarm = word_->given_up()) {
    has_told_ = true;
    // If the alarm came from another node, all ranks have received it from there.
    if (contains(elsewhere_, alarm_from(alarm->reason).rank)) return;
    post_->send(elsewhere_, to_text(AlarmText{alarm->reason}), Post::Delivery::plain);
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
  if (post_ == nullptr || board(0).leaving.fetch_add(1, std::memory_order_relaxed) > 0) return;
  post_->send(elsewhere_, to_text(Closing{operations, member_.rank.value, member_.node.size(), last_calls()}),
              Post::Delivery::plain);
}

bool ControlChannel::has_somebody_left() const { return board(0).closing.load(std::memory_order_acquire) != 0; }

/// Each node sends two messages to each rank of the others, and none arrives after these: a question has been received
/// before its rank is quiet, and a rank that has left raises no alarm. A message that is under way to an MPI
/// communicator when that is freed could be received by the next one with the same context ID.
bool ControlChannel::is_everything_received() {
  receive_all();
  if (!is_quiet_ && post_->is_acknowledged()) {
    is_quiet_ = true;
    const std::size_t quiet = board(0).quiet.fetch_add(1, std::memory_order_relaxed) + 1;
    if (quiet == member_.node.size()) post_->send(elsewhere_, to_text(Quiet{quiet}), Post::Delivery::plain);
    word_->close();
  }
  return is_quiet_ && left_elsewhere_ == elsewhere_.size() && quiet_elsewhere_ == elsewhere_.size();
}

bool ControlChannel::have_all_left() {
  if (post_ == nullptr) return true;
  if (post_->wants_all_received()) return is_everything_received();
  receive_all();
  return true;
}

bool ControlChannel::close() {
  if (!have_all_left()) return false;
  if (post_ != nullptr) std::exchange(post_, nullptr)->close();
  word_->close();
  return true;
}

}  // namespace lockstep
