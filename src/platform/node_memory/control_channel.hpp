// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "platform/node_memory/call_history.hpp"
#include "platform/node_memory/node_memory.hpp"

namespace lockstep {

/// What ranks of a node show each other through a channel's word; defined in
/// src/platform/node_memory/control_board.hpp.
struct ControlBoard;

/// Through which the ranks of one communicator tell each other what goes beside its operations: that one of them takes
/// part no more, and why; that one has closed it; what each calls, and whom one waits for that waits in vain.
///
/// Who raises the alarm writes a word, with the reason, into memory that its node's ranks share. Each of them that sees
/// it sends it to all ranks of other nodes, because the one that raised it may never get round to it; who gets such a
/// message raises the alarm on its own node. The first alarm on a node counts there.
///
///   raise() ─► the node's word ─► heard() on each rank of the node
///                  ▲       └─ tend() ─► messages ─┐
///                  └────────── tend() ◄───────────┘ on each rank of another node
class ControlChannel {
 public:
  /// Carries texts to the ranks that share no memory with this one, on one thread at a time.
  class Post {
   public:
    Post() = default;
    Post(const Post&) = delete;
    Post& operator=(const Post&) = delete;
    virtual ~Post() = default;
    enum class Delivery { plain, acknowledged };
    /// To each of these ranks, without waiting. @throws Error{transport}
    virtual void send(const std::vector<int>& ranks, const std::string& text, Delivery delivery) = 0;
    /// Whether what was to be acknowledged has been received. @throws Error{transport}
    virtual bool is_acknowledged() { return true; }
    /// Gives what was sent a moment to leave, 20 ms at most, if it has not. @throws Error{transport}
    virtual void push() {}
    /// What has come, if anything has. @throws Error{transport}
    virtual std::optional<std::string> receive() = 0;
    /// Whether a text that is received by nobody is a nuisance to somebody later.
    [[nodiscard]] virtual bool wants_all_received() const { return true; }
    /// Nobody sends any more, and everything has been received. @throws Error{transport}
    virtual void close() = 0;
  };

  /// Who this rank is in the group, and who shares memory with it: the word's ranks, in their order.
  struct Member {
    Rank rank;
    int ranks = 1;
    std::string host;
    std::vector<int> node;
  };

  /// What a rank calls as its operation of this number; what the two words mean is known to who asks.
  struct Call {
    std::uint64_t number = 0;
    std::uint64_t what = 0;
    std::uint64_t hash = 0;
  };
  struct Question {
    int rank = 0;
    Call call;
  };

  /// What a rank answers that is asked whom it waits for: it is alive, and polls.
  struct Standing {
    std::vector<int> awaited;  ///< the ranks that its operations on this communicator wait for
    bool is_busy = false;      ///< where these are none: it has operations under way all the same, maybe on another one
  };

  /// Bytes that the control area of each rank of the word needs.
  static constexpr Bytes control_bytes{8192};

  /// @param word  of this communicator alone, of the ranks of this node (this one only, where it shares none)
  /// @param post  null where all ranks share the word
  ControlChannel(Member member, std::shared_ptr<NodeMemory> word, std::unique_ptr<Post> post);
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ~ControlChannel();

  [[nodiscard]] Rank rank() const { return member_.rank; }

  /// Tells everybody. It writes to memory and does not communicate, so any thread may do it, as long as none closes the
  /// channel meanwhile. What this rank said first stays.
  /// @param peers  at fault, or waited for, as far as it is known
  void raise(ErrorCode code, std::string_view reason, const std::vector<int>& peers) noexcept;
  /// The same for an error of this rank. Nothing where it is the consequence of what others have told.
  void raise(const std::exception_ptr& error) noexcept;
  /// Sends what was raised now, for a rank that may never tend the channel again. Takes 20 ms at most, and waits for
  /// nobody; nothing where all ranks share the word, or MPI has ended.
  void tell_now() noexcept;

  /// The alarm, if this rank knows of one, as the error that operations of this rank end with: it names the rank, host
  /// and reason, and is a consequence (`Error::as_consequence`) unless this rank raised it. Its peers are the rank that
  /// raised it and those that this one named, without the rank that hears. A load where there is none.
  [[nodiscard]] std::optional<Error> heard() const {
    const std::optional<LostPeer> alarm = word_->given_up();
    if (!alarm) return std::nullopt;
    return error_of(*alarm);
  }
  /// Error{mismatch} if a rank is known to have closed the communicator after fewer operations than these.
  [[nodiscard]] std::optional<Error> early_close(std::uint64_t operations) const;
  /// The same for any other number of operations, for a rank that is about to close.
  [[nodiscard]] std::optional<Error> uneven_close(std::uint64_t operations) const;
  /// Error{transport} that names a rank of this node whose process has ended. System calls, one for each.
  [[nodiscard]] std::optional<Error> ended_peer() const;

  /// Notes the next call of this rank, for others to compare with theirs: those of its node look it up, and to the
  /// others the last few go with every question and when this rank leaves. To be called for all calls or for none.
  void note_call(const CallHistory::Call& call) { own_calls_->note(call); }
  /// How many calls of a rank there have been, as far as is known.
  [[nodiscard]] std::uint64_t calls_of(int rank) const;
  /// A call of this rank or another one; nothing if it is not known, or not any more.
  [[nodiscard]] std::optional<Call> call_of(int rank, std::uint64_t number) const;

  /// Asks another rank whom it waits for. @throws Error{transport}
  void inquire(int rank);
  /// What that rank has answered to the last inquiry of this one; nothing until it has, as far as tend() knows.
  [[nodiscard]] std::optional<Standing> answer_of(int rank) const;
  /// Whether another rank has asked whom this one waits for, and is to be answered; as far as the last tend() knows.
  [[nodiscard]] bool is_inquired() const;
  /// Answers all who have asked. @throws Error{transport}
  void answer(const Standing& standing);

  /// Asks whether others call the same: all ranks of this node, and those of other nodes that are awaited. A rank asks
  /// one thing at a time. Whoever finds that it calls something else raises the alarm. @throws Error{transport}
  void ask(const Call& mine, const std::vector<int>& awaited);
  /// What others have asked, at most one question of each, as far as the last tend() knows. To be erased when compared.
  [[nodiscard]] std::vector<Question>& questions() { return questions_; }

  /// Whether some rank is known to have closed the communicator. A load.
  [[nodiscard]] bool has_somebody_left() const;

  /// Sends and receives what there is. To be called every few milliseconds, by the thread that owns the communicator
  /// or its progress thread. @throws Error{transport}
  void tend();
  /// Whether there are ranks that only messages reach.
  [[nodiscard]] bool has_post() const { return post_ != nullptr; }
  /// These ranks.
  [[nodiscard]] const std::vector<int>& elsewhere() const { return elsewhere_; }

  /// Tells all ranks that this one closes the communicator, and in how many operations it took part.
  /// @cost  for the first rank of a node that leaves, a message to each rank of other nodes; for the last, one more
  /// @throws Error{transport}
  void leave(std::uint64_t operations);
  /// Whether no message can be on its way to this rank, since all have left. To be called after leave().
  /// @throws Error{transport}
  bool have_all_left();
  /// Releases what the channel has, without waiting, as soon as no message can be on its way to this rank: when all
  /// have left. To be called after leave() until it returns true. @throws Error{transport}
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
  [[nodiscard]] bool is_everything_received();
  [[nodiscard]] std::vector<Call> last_calls() const;
  [[nodiscard]] std::optional<std::size_t> local_rank_of(int rank) const;

  Member member_;
  std::shared_ptr<NodeMemory> word_;
  std::unique_ptr<Post> post_;
  std::vector<int> elsewhere_;  // the ranks that share no memory with this one
  bool has_told_ = false;       // them
  std::vector<Question> questions_;
  std::uint32_t questions_seen_ = 0;
  std::vector<std::uint32_t> versions_seen_;  // by local rank
  ControlBoard* own_board_;
  CallHistory* own_calls_;
  std::map<int, std::vector<Call>> calls_elsewhere_;  // the last that ranks of other nodes have told, by rank
  std::map<int, std::uint32_t> inquiries_;            // by rank of this node that was asked: the number of the inquiry
  std::map<int, std::optional<Standing>> answers_elsewhere_;  // by rank of another node that was asked
  std::vector<int> inquirers_elsewhere_;
  std::uint32_t inquiries_answered_ = 0;  // of those of this node
  bool has_left_ = false;
  bool is_quiet_ = false;            // has left, and nothing that it asked is on its way
  std::size_t left_elsewhere_ = 0;   // ranks of the nodes from which somebody is known to have left
  std::size_t quiet_elsewhere_ = 0;  // and of those from which all have
};

}  // namespace lockstep
