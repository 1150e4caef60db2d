// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep {

/// A rank's control area in the memory of a ControlChannel, zero at the start. Each rank writes its questions on its
/// own board. The fields from `closing` to `questions` are used only on the board of the node's first rank, by all
/// ranks of the node.
struct ControlBoard {
  std::atomic<std::uint64_t> closing;    ///< rank that closed after the fewest operations, and their number; 0: none
                                         ///< has
  std::atomic<std::uint32_t> leaving;    ///< number of ranks of the node that have left
  std::atomic<std::uint32_t> quiet;      ///< number of them with no message under way
  std::atomic<std::uint32_t> questions;  ///< number of questions that ranks of the node have asked

  std::atomic<std::uint32_t> version;  ///< version of the question; odd while it is written
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> what;
  std::atomic<std::uint64_t> hash;

  void ask(const ControlChannel::Call& call) {
    const std::uint32_t before = version.load(std::memory_order_relaxed);
    version.store(before + 1, std::memory_order_relaxed);
    number.store(call.number, std::memory_order_release);  // a reader that sees one of these sees the odd version too
    what.store(call.what, std::memory_order_release);
    hash.store(call.hash, std::memory_order_release);
    version.store(before + 2, std::memory_order_release);
  }

  /// @param seen  the version that was read last; set to the version that this call reads
  /// @return nothing if there is no new question, or it is being written
  std::optional<ControlChannel::Call> read(std::uint32_t& seen) const {
    const std::uint32_t now = version.load(std::memory_order_acquire);
    if (now == seen || now % 2 != 0) return std::nullopt;
    const ControlChannel::Call call{number.load(std::memory_order_acquire), what.load(std::memory_order_acquire),
                                    hash.load(std::memory_order_acquire)};
    if (version.load(std::memory_order_relaxed) != now) return std::nullopt;
    seen = now;
    return call;
  }

  CallHistory calls;

  /// The rank's answer to inquiries of its node: the ranks that it waits for.
  static constexpr std::size_t most_awaited = 128;
  alignas(64) std::atomic<std::uint32_t> inquiries;  ///< number of inquiries by other ranks
  std::atomic<std::uint32_t> answer_version;         ///< odd while the answer is written
  std::atomic<std::uint32_t> answered;               ///< number of inquiries that the answer covers
  std::atomic<std::uint32_t> is_busy;
  std::atomic<std::uint32_t> awaited_ranks;
  std::array<std::atomic<std::int32_t>, most_awaited> awaited;

  void answer(const ControlChannel::Standing& standing, std::uint32_t inquiry) {
    const std::uint32_t before = answer_version.load(std::memory_order_relaxed);
    answer_version.store(before + 1, std::memory_order_relaxed);
    const std::size_t ranks = std::min(standing.awaited.size(), most_awaited);
    for (std::size_t i = 0; i < ranks; ++i) awaited[i].store(standing.awaited[i], std::memory_order_release);
    awaited_ranks.store(static_cast<std::uint32_t>(ranks), std::memory_order_release);
    is_busy.store(standing.is_busy ? 1 : 0, std::memory_order_release);
    answered.store(inquiry, std::memory_order_release);
    answer_version.store(before + 2, std::memory_order_release);
  }
  /// The answer to the inquiry of this number or a later one; empty if there is none yet, or it is being written.
  [[nodiscard]] std::optional<ControlChannel::Standing> read_answer(std::uint32_t inquiry) const {
    const std::uint32_t now = answer_version.load(std::memory_order_acquire);
    const auto is_earlier = static_cast<std::int32_t>(answered.load(std::memory_order_acquire) - inquiry) < 0;
    if (now % 2 != 0 || is_earlier) return std::nullopt;
    ControlChannel::Standing standing;
    standing.is_busy = is_busy.load(std::memory_order_acquire) != 0;
    const std::size_t ranks = std::min<std::size_t>(awaited_ranks.load(std::memory_order_acquire), most_awaited);
    for (std::size_t i = 0; i < ranks; ++i) standing.awaited.push_back(awaited[i].load(std::memory_order_acquire));
    if (answer_version.load(std::memory_order_relaxed) != now) return std::nullopt;
    return standing;
  }
};
static_assert(sizeof(ControlBoard) <= ControlChannel::control_bytes.value);

/// The alarm of a rank that fails.
struct Alarm {
  ErrorCode code = ErrorCode::transport;
  int rank = -1;
  std::vector<int> peers;
  std::string host;
  std::string reason;
};

/// The text of an alarm in a node's word: "3 1 1 2 host7\tnothing has moved for 300.00 s" for the code, the rank, the
/// number of peers, the peer 2, the host and the reason.
std::string to_text(const Alarm& alarm);
Alarm alarm_from(const std::string& text);

/// The types of messages between nodes. The first letter of a message is its type, and its fields follow. An AlarmText
/// is the text in the word.
struct AlarmText {
  std::string text;
};
struct Closing {  ///< sent by the first rank that closes on a node of `ranks` ranks
  static constexpr char letter = 'C';
  std::uint64_t operations = 0;
  int rank = 0;
  std::size_t ranks = 0;
  std::vector<ControlChannel::Call> calls{};  ///< the sender's last calls, with consecutive numbers
  auto fields() { return std::tie(operations, rank, ranks, calls); }
};
struct Quiet {  ///< the last message of a node of `ranks` ranks
  static constexpr char letter = 'Q';
  std::size_t ranks = 0;
  auto fields() { return std::tie(ranks); }
};
struct Asking {
  static constexpr char letter = '?';
  ControlChannel::Question question{};
  std::vector<ControlChannel::Call> calls{};  ///< as in Closing
  auto fields() { return std::tie(question.rank, question.call, calls); }
};
struct Inquiry {  ///< asks a rank which ranks it waits for
  static constexpr char letter = 'W';
  int rank = 0;  ///< the asking rank
  auto fields() { return std::tie(rank); }
};
struct Answer {
  static constexpr char letter = 'A';
  int rank = 0;  ///< the answering rank
  ControlChannel::Standing standing{};
  auto fields() { return std::tie(rank, standing.is_busy, standing.awaited); }
};
using ControlMessage = std::variant<AlarmText, Closing, Quiet, Asking, Inquiry, Answer>;

std::string to_text(const ControlMessage& message);
ControlMessage message_from(const std::string& text);

}  // namespace lockstep
