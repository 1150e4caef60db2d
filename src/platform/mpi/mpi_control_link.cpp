// SPDX-License-Identifier: Apache-2.0
// This file implements what beside the messages of operations goes by MPI: texts, and exchanges.
#include <mpi.h>

#include <algorithm>
#include <list>
#include <thread>

#include "base/nearest.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/ulfm.hpp"

namespace lockstep {
namespace {

/// Sends and receives texts as MPI messages.
class MpiControlLink final : public ControlLink {
 public:
  /// @param group  whose communicator has no other messages. It is closed with the link.
  explicit MpiControlLink(RankSet group) : group_(std::move(group)), communicator_(communicator(*group_)), tag_(0) {}
  MpiControlLink(MPI_Comm communicator, int tag) : communicator_(communicator), tag_(tag) {}
  ~MpiControlLink() override {
    if (!sent_->empty()) static_cast<void>(sent_.release());  // MPI may still read it
  }

  /// Does nothing if MPI has ended, because destructors call this.
  void send(const std::vector<int>& ranks, const std::string& text, Delivery delivery) override {
    if (mpi_has_ended()) return;
    release_sent();
    has_sent_ = true;
    Sent& sent = sent_->emplace_back(Sent{text, delivery, {}});
    const auto start = delivery == Delivery::acknowledged ? MPI_Issend : MPI_Isend;
    for (const int rank : ranks) {
      sent.requests.push_back(MPI_REQUEST_NULL);
      tolerate(start(sent.text.data(), static_cast<int>(sent.text.size()), MPI_CHAR, rank, tag_, communicator_,
                     &sent.requests.back()),
               "MPI_Isend");
    }
  }

  bool is_acknowledged() override {
    release_sent();
    return std::none_of(sent_->begin(), sent_->end(),
                        [](const Sent& sent) { return sent.delivery == Delivery::acknowledged; });
  }

  /// Calls MPI until it has sent everything: MPI sends a message that could not leave at once, for instance before two
  /// hosts are connected, only while it is called.
  void push() override {
    constexpr std::chrono::milliseconds at_most{20};
    const auto begin = std::chrono::steady_clock::now();
    while (!mpi_has_ended() && !release_sent() && std::chrono::steady_clock::now() - begin < at_most)
      std::this_thread::yield();
  }

  std::optional<std::string> receive() override {
    int found = 0;
    MPI_Status status;
    const int code = MPI_Iprobe(MPI_ANY_SOURCE, tag_, communicator_, &found, &status);
    if (code != MPI_SUCCESS) throw_naming_the_dead(code, "MPI_Iprobe");
    if (found == 0) return std::nullopt;
    int length = 0;
    LOCKSTEP_MPI(MPI_Get_count(&status, MPI_CHAR, &length));
    std::string text(static_cast<std::size_t>(length), ' ');
    LOCKSTEP_MPI(MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, tag_, communicator_, MPI_STATUS_IGNORE));
    return text;
  }

  [[nodiscard]] bool may_be_used_by_any_thread() const override {
    return !mpi_has_ended() && provided_mpi_level() == MPI_THREAD_MULTIPLE;
  }

  void close() override {
    release_sent();
    if (group_) {
      group_->close();
    } else if (!has_sent_) {
      LOCKSTEP_MPI(MPI_Comm_free(&communicator_));
    }
  }

 private:
  struct Sent {
    std::string text;
    Delivery delivery;
    std::vector<MPI_Request> requests;
  };

  /// MPI fails here on all ranks, whatever they wait for, once it knows that a rank has died.
  [[noreturn]] void throw_naming_the_dead(int code, const char* call) const {
    std::vector<int> dead;
    if (is_of_death(code) && !is_revoked(code)) dead = dead_ranks(communicator_);
    if (dead.empty()) throw_mpi_error(code, call);
    const std::string names =
        rank_names(dead, [this](int rank) { return group_ ? group_->host_of({rank}) : std::string(); });
    throw Error(ErrorCode::transport, names + (dead.size() == 1 ? " has ended" : " have ended"), {.peers = dead});
  }

  /// A rank that has died keeps the others from nothing: a text to it counts as sent.
  static void tolerate(int code, const char* call) {
    if (code != MPI_SUCCESS && !is_of_death(code)) throw_mpi_error(code, call);
  }

  /// @return whether no message is left
  bool release_sent() {
    for (Sent& sent : *sent_) {
      std::erase_if(sent.requests, [](MPI_Request request) {
        int done = 0;
        const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        tolerate(code, "MPI_Test");
        return done != 0 || code != MPI_SUCCESS;
      });
    }
    sent_->remove_if([](const Sent& sent) { return sent.requests.empty(); });
    return sent_->empty();
  }

  std::optional<RankSet> group_;
  MPI_Comm communicator_;
  int tag_;
  bool has_sent_ = false;
  std::unique_ptr<std::list<Sent>> sent_ = std::make_unique<std::list<Sent>>();
};

class MpiExchange : public Exchange {
 public:
  explicit MpiExchange(RankSet group) : group_(std::move(group)) {}

  void begin(std::span<const std::byte> own) override {
    own_.assign(own.begin(), own.end());
    all_.resize(own.size() * static_cast<std::size_t>(group_.size()));
    const auto bytes = static_cast<int>(own.size());
    LOCKSTEP_MPI(
        MPI_Iallgather(own_.data(), bytes, MPI_BYTE, all_.data(), bytes, MPI_BYTE, communicator(group_), &request_));
  }

  std::span<const std::byte> poll() override {
    int complete = 0;
    LOCKSTEP_MPI(MPI_Test(&request_, &complete, MPI_STATUS_IGNORE));
    return complete != 0 ? std::span<const std::byte>(all_) : std::span<const std::byte>();
  }

  void close() override { group_.close(); }

 private:
  RankSet group_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::vector<std::byte> own_;
  std::vector<std::byte> all_;
};

}  // namespace

std::unique_ptr<ControlLink> make_mpi_control_link(MPI_Comm communicator, int tag) {
  return std::make_unique<MpiControlLink>(communicator, tag);
}

std::unique_ptr<ControlLink> MpiLink::make_control_link(const RankSet& set) {
  return std::make_unique<MpiControlLink>(set.dup());
}

std::unique_ptr<Exchange> MpiLink::make_exchange(const RankSet& set) {
  return std::make_unique<MpiExchange>(set.dup());
}

}  // namespace lockstep
