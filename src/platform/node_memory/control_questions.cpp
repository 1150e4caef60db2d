// SPDX-License-Identifier: Apache-2.0
// This file implements how ranks compare their calls, and how they ask which ranks others wait for.

#include "platform/node_memory/control_board.hpp"

namespace lockstep {

void ControlChannel::ask(const Call& mine, const std::vector<int>& awaited) {
  board(word_->rank()).ask(mine);
  board(0).questions.fetch_add(1, std::memory_order_release);
  std::vector<int> far;
  for (const int rank : awaited)
    if (!local_rank_of(rank)) far.push_back(rank);
  if (far.empty()) return;
  const std::lock_guard turn(turn_);
  link_->send(far, to_text(Asking{{member_.rank.value, mine}, last_calls()}), ControlLink::Delivery::acknowledged);
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
  const std::lock_guard turn(turn_);
  link_->send({rank}, to_text(Inquiry{member_.rank.value}), ControlLink::Delivery::acknowledged);
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
  const std::lock_guard turn(turn_);
  link_->send(std::exchange(inquirers_elsewhere_, {}), to_text(Answer{member_.rank.value, standing}),
              ControlLink::Delivery::acknowledged);
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

}  // namespace lockstep
