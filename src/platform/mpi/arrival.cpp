// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/arrival.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int tag = 32767;          // the largest that every MPI has: hardly one that a program uses
constexpr std::string_view call{};  // rank 0's first message: who is there?

/// One rank's part. Where the deadline passes, rank 0 calls the others, those that are there answer with the names of
/// their hosts, and rank 0 tells all of them who did not. Another rank, whose deadline passes first, answers
/// without having been called, which makes rank 0 call at once. After a call nobody goes on, even if the last one comes
/// in that moment.
class Arrival {
 public:
  Arrival(MPI_Comm communicator, Seconds deadline)
      : communicator_(communicator), deadline_(deadline), grace_(std::clamp(deadline / 4, Seconds(0.2), Seconds(5))) {
    LOCKSTEP_MPI(MPI_Comm_rank(communicator_, &rank_));
    LOCKSTEP_MPI(MPI_Comm_size(communicator_, &size_));
  }

  void wait() {
    LOCKSTEP_MPI(MPI_Ibarrier(communicator_, &barrier_));
    for (bool settled = false; !settled; pause()) {
      if (come_ == 0) LOCKSTEP_MPI(MPI_Test(&barrier_, &come_, MPI_STATUS_IGNORE));
      hear();
      settled = come_ != 0 && !called_ && !answered_ && host_of_.empty();
      if (!settled && rank_ == 0) ask();
      if (!settled && rank_ != 0) settled = answer();
    }
  }

 private:
  static bool passed(Clock::time_point since, Seconds time) { return Clock::now() - since > time; }

  /// The first milliseconds are those in which ranks come that were started together.
  void pause() const {
    if (passed(begin_, std::chrono::milliseconds(5))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      std::this_thread::yield();
    }
  }

  void hear() {
    for (;;) {
      int found = 0;
      MPI_Status status;
      LOCKSTEP_MPI(MPI_Iprobe(rank_ == 0 ? MPI_ANY_SOURCE : 0, tag, communicator_, &found, &status));
      if (found == 0) return;
      int length = 0;
      LOCKSTEP_MPI(MPI_Get_count(&status, MPI_CHAR, &length));
      std::string text(static_cast<std::size_t>(length), '\0');
      LOCKSTEP_MPI(MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, tag, communicator_, MPI_STATUS_IGNORE));
      if (rank_ == 0) {
        host_of_[status.MPI_SOURCE] = text;
      } else if (text == call) {
        called_ = true;
      } else {
        throw Error(ErrorCode::timeout, text);
      }
    }
  }

  /// The part of rank 0.
  void ask() {
    if (!called_ && (passed(begin_, deadline_) || !host_of_.empty())) {
      called_ = true;
      spoken_ = Clock::now();
      host_of_[0] = processor_name();
      tell_all(std::string(call));
    }
    if (!called_ || !passed(spoken_, grace_)) return;
    const Error verdict = who_is_missing();
    tell_all(verdict.message());
    throw Error(verdict);
  }

  /// The part of the others. @return whether all are there after all, since rank 0 went on before it heard this rank
  bool answer() {
    if (!answered_ && (called_ || passed(begin_, deadline_))) {
      answered_ = true;
      spoken_ = Clock::now();
      tell(0, processor_name());
    }
    if (!answered_ || !passed(spoken_, 3 * grace_)) return false;
    if (come_ != 0 && !called_) return true;
    throw Error(ErrorCode::timeout,
                "rank 0 of " + std::to_string(size_) + " did not come within " + limit() +
                    " to start together with this rank, nor does it answer",
                {.rank = rank_, .host = processor_name(), .peers = {0}});
  }

  [[nodiscard]] Error who_is_missing() const {
    std::vector<int> missing;
    std::map<std::string, std::string> come;
    for (int rank = 0; rank < size_; ++rank) {
      const auto found = host_of_.find(rank);
      if (found == host_of_.end()) {
        missing.push_back(rank);
      } else {
        std::string& list = come[found->second];
        list += (list.empty() ? "" : ", ") + std::to_string(rank);
      }
    }
    std::string text;
    for (const int rank : missing) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    text = missing.empty() ? "all ranks came, but some later than " + limit() + " after others"
                           : "of " + std::to_string(size_) + " ranks these did not come within " + limit() +
                                 " to start together: " + text;
    for (const auto& [host, ranks] : come) text += "; from " + host + " came " + ranks;
    return Error(ErrorCode::timeout, text, {.peers = std::move(missing)});
  }

  [[nodiscard]] std::string limit() const {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3g s", deadline_.count());
    return text.data();
  }

  void tell_all(const std::string& text) {
    for (int rank = 1; rank < size_; ++rank) tell(rank, text);
  }

  /// Nobody waits for this to be received, least of all from one that does not come: the text is kept for ever.
  void tell(int rank, const std::string& text) {
    static auto& kept = *std::make_unique<std::deque<std::string>>().release();
    const std::string& sent = kept.emplace_back(text);
    MPI_Request request = MPI_REQUEST_NULL;
    LOCKSTEP_MPI(MPI_Isend(sent.data(), static_cast<int>(sent.size()), MPI_CHAR, rank, tag, communicator_, &request));
    LOCKSTEP_MPI(MPI_Request_free(&request));
  }

  MPI_Comm communicator_;
  Seconds deadline_;
  Seconds grace_;
  int rank_ = 0;
  int size_ = 1;
  MPI_Request barrier_ = MPI_REQUEST_NULL;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point spoken_;
  int come_ = 0;  // whether all have
  bool called_ = false;
  bool answered_ = false;
  std::map<int, std::string> host_of_;  // of those that have answered
};

}  // namespace

void await_arrival(MPI_Comm communicator, std::chrono::duration<double> deadline) {
  Arrival(communicator, deadline).wait();
}

}  // namespace lockstep
