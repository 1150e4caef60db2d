// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep {

/// The last calls of a rank, with two words for each, whose meaning is defined by the code that compares them. It lies
/// in memory that is zero at the start. One rank writes it, and any rank of its node may read it at any time.
class CallHistory {
 public:
  struct Call {
    std::uint64_t what = 0;
    std::uint64_t hash = 0;
  };
  static constexpr std::uint64_t remembered = 256;

  void note(const Call& call) {
    const std::uint64_t number = count_.load(std::memory_order_relaxed);
    Entry& next = entries_[number % remembered];
    next.what.store(call.what, std::memory_order_release);  // a reader that sees it also sees the count before it
    next.hash.store(call.hash, std::memory_order_release);
    count_.store(number + 1, std::memory_order_release);
  }
  /// The number of calls so far.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }
  /// The call with this number, counted from 0; empty if it has not been made yet, or is no longer kept.
  [[nodiscard]] std::optional<Call> at(std::uint64_t number) const {
    if (number >= count()) return std::nullopt;
    const Entry& entry = entries_[number % remembered];
    const Call call{entry.what.load(std::memory_order_acquire), entry.hash.load(std::memory_order_acquire)};
    if (number + remembered <= count_.load(std::memory_order_relaxed)) return std::nullopt;  // maybe overwritten
    return call;
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> what;
    std::atomic<std::uint64_t> hash;
  };
  alignas(64) std::atomic<std::uint64_t> count_;
  alignas(64) std::array<Entry, remembered> entries_;
};

/// The data that one rank shows to the other ranks of its node; defined in src/platform/node_memory/control_board.hpp.
struct ControlBoard;

/// How the texts of a control channel reach the ranks that share no memory with this one: by MPI, over TCP, or between
/// threads. It is used by one thread at a time.
class ControlLink {
 public:
  ControlLink() = default;
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;
  virtual ~ControlLink() = default;
  enum class Delivery { plain, acknowledged };
  /// Sends a text to each of these ranks, without waiting. @throws Error{transport}
  virtual void send(const std::vector<int>& ranks, const std::string& text, Delivery delivery) = 0;
  /// Whether all texts with Delivery::acknowledged have been received. @throws Error{transport}
  virtual bool is_acknowledged() { return true; }
  /// Gives texts that have not left yet at most 20 ms to leave. @throws Error{transport}
  virtual void push() {}
  /// Returns a text that has arrived; empty if there is none. @throws Error{transport}
  virtual std::optional<std::string> receive() = 0;
  /// Whether a thread may use it while the thread that owns the communicator does something else.
  [[nodiscard]] virtual bool may_be_used_by_any_thread() const { return true; }
  /// Whether every text must be received, because one that is left over could disturb a later receiver.
  [[nodiscard]] virtual bool wants_all_received() const { return true; }
  /// Closes the link. @pre no rank sends any more, and everything has been received. @throws Error{transport}
  virtual void close() = 0;
};

/// Tells the ranks of one communicator about events beside its operations: that a rank fails, and why; that a rank has
/// closed the communicator; which operations each rank calls; and, if a rank waits in vain, which ranks others wait
/// for.
///
/// A rank raises the alarm by writing it, with the reason, to memory that the ranks of its node share (the node's
/// word). Each of them that sees it sends it to all ranks of other nodes, because the rank that raised it may no longer
/// be able to. A rank that receives such a message raises the alarm on its own node. The first alarm on a node counts
/// there.
///
///   raise() ─► the node's word ─► heard() on each rank of the node
///                  ▲       └─ poll_messages() ─► messages ─┐
///                  └────────── poll_messages() ◄───────────┘ on each rank of another node
class ControlChannel {
 public:
  /// A rank of the group, and the ranks that share memory with it: the ranks of the word, in their order.
  struct Member {
    Rank rank;
    int ranks = 1;
    std::string host;
    std::vector<int> node;
    std::vector<std::string> hosts;  ///< by rank; empty where they are unknown
  };

  /// The call of a rank for its operation of this number. The code that compares calls defines the other two words.
  struct Call {
    std::uint64_t number = 0;
    std::uint64_t what = 0;
    std::uint64_t hash = 0;
  };
  struct Question {
    int rank = 0;
    Call call;
  };

  /// The answer of a rank that was asked which ranks it waits for. A rank that answers is alive and polls.
  struct Standing {
    std::vector<int> awaited;  ///< the ranks that its operations on this communicator wait for
    bool is_busy = false;      ///< if there are none: it has operations under way all the same, maybe elsewhere
  };

  /// Size of the control area of each rank of the word.
  static constexpr Bytes control_bytes{8192};

  /// @param word  memory for this communicator alone, shared by the ranks of this node (by this one only, if it shares
  ///         none)
  /// @param link  null if all ranks share the word
  ControlChannel(Member member, std::shared_ptr<NodeMemory> word, std::unique_ptr<ControlLink> link);
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ~ControlChannel();

  [[nodiscard]] Rank rank() const { return member_.rank; }
  /// Returns the name of a rank's host, or an empty text if it is unknown.
  [[nodiscard]] std::string host_of(int rank) const {
    return member_.hosts.empty() ? std::string() : member_.hosts[static_cast<std::size_t>(rank)];
  }

  /// Raises the alarm for all ranks. It writes to memory and does not communicate, so any thread may call it, unless
  /// another thread closes the channel meanwhile. Only the first alarm of this rank counts.
  /// @param peers  ranks at fault, or waited for, as far as known
  void raise(ErrorCode code, std::string_view reason, const std::vector<int>& peers) noexcept;
  /// Raises the alarm for an error of this rank. Does nothing if the error is a consequence of another rank's alarm.
  void raise(const std::exception_ptr& error) noexcept;
  /// Sends the alarm now, for a rank that may never call poll_messages() again. It takes at most 20 ms and does not
  /// wait for other ranks. Does nothing if all ranks share the word, or MPI has ended.
  void tell_now() noexcept;
  /// The same on a thread that does not own the communicator, as for raise(), and in at most 40 ms. Does nothing
  /// either if the link is for the owner's thread only.
  void tell_from_another_thread() noexcept;

  /// The alarm, if this rank knows of one, as the error with which its operations end. It names the rank, host and
  /// reason, and is a consequence (`Error::as_consequence`) unless this rank raised it. Its peers are the rank that
  /// raised it and the peers which that rank named, without the calling rank. It costs one load if there is no alarm.
  [[nodiscard]] std::optional<Error> heard() const {
    const std::optional<LostPeer> alarm = word_->given_up();
    if (!alarm) return std::nullopt;
    return error_of(*alarm);
  }
  /// Returns Error{mismatch} if a rank is known to have closed the communicator after fewer operations than these.
  [[nodiscard]] std::optional<Error> early_close(std::uint64_t operations) const;
  /// Returns Error{mismatch} if a rank is known to have closed the communicator after another number of operations. It
  /// is for a rank that is about to close.
  [[nodiscard]] std::optional<Error> uneven_close(std::uint64_t operations) const;
  /// Returns Error{transport} that names a rank of this node whose process has ended. One system call per rank.
  [[nodiscard]] std::optional<Error> ended_peer() const;

  /// Records the next call of this rank, so that others can compare it with theirs. Ranks of its node read the record.
  /// The other ranks receive the last few calls with every question, and when this rank leaves. Call it for all calls
  /// or for none.
  void note_call(const CallHistory::Call& call) { own_calls_->note(call); }
  /// The number of calls of a rank, as far as known.
  [[nodiscard]] std::uint64_t calls_of(int rank) const;
  /// A call of this rank or another one; empty if it is not known, or no longer kept.
  [[nodiscard]] std::optional<Call> call_of(int rank, std::uint64_t number) const;

  /// Asks another rank which ranks it waits for. @throws Error{transport}
  void inquire(int rank);
  /// The answer of that rank to the last inquiry of this one; empty until poll_messages() knows of it.
  [[nodiscard]] std::optional<Standing> answer_of(int rank) const;
  /// Whether an inquiry of another rank has to be answered, as far as the last poll_messages() knows.
  [[nodiscard]] bool is_inquired() const;
  /// Answers all ranks that have inquired. @throws Error{transport}
  void answer(const Standing& standing);

  /// Asks whether others call the same: all ranks of this node, and those of other nodes that are awaited. A rank asks
  /// one question at a time. A rank that finds a different call raises the alarm. @throws Error{transport}
  void ask(const Call& mine, const std::vector<int>& awaited);
  /// Questions of other ranks, at most one of each, as far as the last poll_messages() knows. The caller erases them
  /// after comparing.
  [[nodiscard]] std::vector<Question>& questions() { return questions_; }

  /// Whether a rank is known to have closed the communicator. It costs one load.
  [[nodiscard]] bool has_somebody_left() const;

  /// Sends and receives pending messages. Call it every few milliseconds, on the thread that owns the communicator or
  /// on its progress thread. @throws Error{transport}
  void poll_messages();
  /// Whether there are ranks that can be reached by messages only.
  [[nodiscard]] bool has_link() const { return link_ != nullptr; }
  /// The ranks that can be reached by messages only.
  [[nodiscard]] const std::vector<int>& elsewhere() const { return elsewhere_; }

  /// Tells all ranks that this one closes the communicator, and the number of operations in which it took part.
  /// @cost  for the first rank of a node that leaves, a message to each rank of other nodes; for the last, one more
  /// @throws Error{transport}
  void leave(std::uint64_t operations);
  /// Whether no message can arrive at this rank any more, because all ranks have left. Call it after leave().
  /// @throws Error{transport}
  bool have_all_left();
  /// Releases the resources of the channel, without waiting, once no message can arrive at this rank any more. After
  /// leave(), call it until it returns true. @throws Error{transport}
  bool close();

 private:
  [[nodiscard]] Error error_of(const LostPeer& alarm) const;
  [[nodiscard]] Error closed_after(std::uint64_t closing, std::uint64_t operations) const;
  [[nodiscard]] ControlBoard& board(int local_rank) const;
  void note_closing(std::uint64_t operations, int rank) const;
  void note(const Question& question);
  void read_boards();
  void receive_all();
  void read(const std::string& text);
  void send_alarm(const LostPeer& alarm);
  [[nodiscard]] bool is_everything_received();
  [[nodiscard]] std::vector<Call> last_calls() const;
  [[nodiscard]] std::optional<std::size_t> local_rank_of(int rank) const;

  Member member_;
  std::shared_ptr<NodeMemory> word_;
  std::mutex turn_;  // guards link_ and has_told_, which tell_from_another_thread() uses too
  std::unique_ptr<ControlLink> link_;
  std::vector<int> elsewhere_;  // ranks that share no memory with this one
  bool has_told_ = false;       // the alarm has been sent to them, or came from them
  std::vector<Question> questions_;
  std::uint32_t questions_seen_ = 0;
  std::vector<std::uint32_t> versions_seen_;  // for each local rank
  ControlBoard* own_board_;
  CallHistory* own_calls_;
  std::map<int, std::vector<Call>> calls_elsewhere_;          // last known calls of each rank of another node
  std::map<int, std::uint32_t> inquiries_;                    // number of the last inquiry to each rank of this node
  std::map<int, std::optional<Standing>> answers_elsewhere_;  // answer of each rank of another node that was asked
  std::vector<int> inquirers_elsewhere_;
  std::uint32_t inquiries_answered_ = 0;  // number of inquiries of this node that have been answered
  bool has_left_ = false;
  bool is_quiet_ = false;            // has left, and none of its questions is under way
  std::size_t left_elsewhere_ = 0;   // ranks of the nodes from which a rank is known to have left
  std::size_t quiet_elsewhere_ = 0;  // ranks of the nodes from which all are known to have left
};

}  // namespace lockstep
