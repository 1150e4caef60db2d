// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/control_channel.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

namespace lockstep {
namespace {

/// An alarm on its way: "3 1 1 2 host7\tnothing has moved for 300.00 s" for a code, a rank, one peer, 2, a host and the
/// reason.
struct Alarm {
  ErrorCode code = ErrorCode::transport;
  int rank = -1;
  std::vector<int> peers;
  std::string host;
  std::string reason;
};

std::string to_text(const Alarm& alarm) {
  constexpr std::size_t most_peers = 8;  // the reason is cut where it does not fit
  const std::size_t peers = std::min(alarm.peers.size(), most_peers);
  std::ostringstream text;
  text << static_cast<int>(alarm.code) << ' ' << alarm.rank << ' ' << peers;
  for (std::size_t i = 0; i < peers; ++i) text << ' ' << alarm.peers[i];
  text << ' ' << alarm.host << '\t' << alarm.reason;
  return text.str();
}

Alarm alarm_from(const std::string& text) {
  Alarm alarm;
  int code = 0;
  std::size_t peers = 0;
  std::istringstream in(text);
  if (!(in >> code >> alarm.rank >> peers)) return {.reason = text};  // of a word that nobody raised on purpose
  for (int peer = 0; peers > 0 && in >> peer; --peers) alarm.peers.push_back(peer);
  in.ignore();
  std::getline(in, alarm.host, '\t');
  alarm.reason.assign(std::istreambuf_iterator<char>(in), {});
  alarm.code = static_cast<ErrorCode>(code);
  return alarm;
}

/// Who closed, and after how many operations, in one word that is 0 until somebody has.
constexpr unsigned rank_bits = 24;

}  // namespace

ControlChannel::ControlChannel(Place place, std::shared_ptr<NodeMemory> word, std::unique_ptr<Post> post)
    : place_(std::move(place)), word_(std::move(word)), post_(std::move(post)) {
  for (int rank = 0; rank < place_.ranks; ++rank) {
    if (std::find(place_.node.begin(), place_.node.end(), rank) == place_.node.end()) elsewhere_.push_back(rank);
  }
}

std::atomic<std::uint64_t>& ControlChannel::closing() const {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(word_->control(0));
}

void ControlChannel::raise(ErrorCode code, std::string_view reason, const std::vector<int>& peers) noexcept {
  try {
    word_->give_up(to_text({code, place_.rank.value, peers, place_.host, std::string(reason)}));
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

Error ControlChannel::error_of(const LostPeer& lost) const {
  Alarm alarm = alarm_from(lost.reason);
  if (alarm.rank < 0) alarm.rank = place_.node[static_cast<std::size_t>(lost.rank)];
  if (alarm.rank == place_.rank.value) {
    return Error(alarm.code, alarm.reason, {.rank = place_.rank.value, .host = place_.host, .peers = alarm.peers});
  }
  std::vector<int> peers{alarm.rank};
  for (const int peer : alarm.peers)
    if (peer != alarm.rank && peer != place_.rank.value) peers.push_back(peer);
  const std::string who = "rank " + std::to_string(alarm.rank) + " on " + alarm.host;
  return Error(alarm.code, who + " has given up: " + alarm.reason,
               {.rank = place_.rank.value, .host = place_.host, .peers = std::move(peers)})
      .as_consequence();
}

std::optional<Error> ControlChannel::early_close(std::uint64_t operations) const {
  const std::uint64_t closed = closing().load(std::memory_order_acquire);
  if (closed == 0 || operations <= closed >> rank_bits) return std::nullopt;
  const int who = static_cast<int>(closed & ((std::uint64_t{1} << rank_bits) - 1)) - 1;
  return Error(ErrorCode::mismatch,
               "rank " + std::to_string(who) + " closed the communicator after " + std::to_string(closed >> rank_bits) +
                   " operations; this rank has submitted " + std::to_string(operations),
               {.rank = place_.rank.value, .host = place_.host, .peers = {who}});
}

void ControlChannel::tend() {
  if (post_ == nullptr || has_told_) return;
  if (const auto alarm = word_->given_up()) {
    has_told_ = true;
    // What came from another node has been sent to everybody there.
    const int by = alarm_from(alarm->reason).rank;
    if (std::find(elsewhere_.begin(), elsewhere_.end(), by) == elsewhere_.end()) post_->send(elsewhere_, alarm->reason);
  } else if (const auto text = post_->receive()) {
    word_->give_up(*text);
  }
}

void ControlChannel::leave(std::uint64_t operations) noexcept {
  const std::uint64_t mine = operations << rank_bits | (static_cast<std::uint64_t>(place_.rank.value) + 1);
  std::uint64_t first = closing().load(std::memory_order_relaxed);
  while ((first == 0 || mine < first) && !closing().compare_exchange_weak(first, mine, std::memory_order_release)) {
  }
}

void ControlChannel::close() {
  if (post_ != nullptr) post_->close();
  word_->close();
}

}  // namespace lockstep
