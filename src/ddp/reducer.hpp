// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::ddp {

/// Consecutive tensors that are reduced together: elements `offset` … `offset + count` of the flat gradients.
struct Bucket {
  Count offset;
  Count count;
  std::vector<int> tensors;  ///< indices into the layout, last layer first
  std::vector<Count> parts;  ///< parts of the ranks, in rank order; empty if every rank gets the whole bucket

  /// Returns a rank's part of the flat gradients. @pre parts is not empty
  [[nodiscard]] LayoutPart part_of(Rank rank) const;
};

struct BucketOptions {
  Bytes size{25 << 20};  ///< a bucket is closed once it holds this many bytes
  /// Size of the first bucket, which is ready while most of the backward pass is still to run.
  Bytes first{1 << 20};
  /// The last buckets get smaller down to this size, because what is complete when backward ends is exchanged after it.
  Bytes least{256 << 10};
  int parts = 0;  ///< number of parts per bucket, one for each rank; 0 leaves buckets whole
};

/// Divides `count` elements into parts that differ by at most `Layout::alignment` elements and begin at multiples of
/// it; no part is larger than the first. Some parts may be empty.
std::vector<Count> even_parts(Count count, int parts);

/// Divides a layout into buckets, from its last tensor to its first, which is about the order in which backward
/// finishes them.
/// No tensor is split; a tensor larger than a bucket gets a bucket of its own. Towards the end a bucket has half of
/// what is left: the layers next to the input have few parameters and take long, so that there is time for small
/// buckets.
/// @throws Error{invalid_argument} if a size is not positive
std::vector<Bucket> plan_buckets(const Layout& layout, DType dtype, const BucketOptions& options);

/// Returns a fingerprint of the layout, dtype, buckets and parts. Ranks whose fingerprints differ would reduce
/// unrelated gradients.
std::uint64_t hash(const Layout& layout, DType dtype, const std::vector<Bucket>& buckets);

/// Operations that a stream waits for and whose end the host has not seen.
class StreamOrderedWork {
 public:
  StreamOrderedWork() = default;
  StreamOrderedWork(const StreamOrderedWork&) = delete;
  StreamOrderedWork& operator=(const StreamOrderedWork&) = delete;
  /// Drops the operations that have ended. The program has waited for the stream, but the host need not have polled.
  ~StreamOrderedWork() {
    try {
      while (!pending_.empty() && pending_.front().wait(std::chrono::seconds(0))) pending_.pop_front();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the operation has failed, and the communicator says so
    }
  }

  /// Adds an operation that is pending.
  void add(Work work) { pending_.push_back(std::move(work)); }
  /// Drops the operations that have ended. @throws the Error of one that has failed
  void drop_ended() {
    while (!pending_.empty() && pending_.front().test()) wait_for_first();
  }
  /// Waits for all operations. @throws the Error of the first one that has failed
  void wait() {
    while (!pending_.empty()) wait_for_first();
  }
  /// Waits for all operations, and ignores their failures, which the communicator keeps throwing.
  void settle() noexcept {
    while (!pending_.empty()) {
      try {
        wait_for_first();
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nobody needs its result any more
      }
    }
  }

 private:
  void wait_for_first() {
    Work first = std::move(pending_.front());
    pending_.pop_front();
    first.wait();
  }

  std::deque<Work> pending_;
};

/// Reduces the buckets of flat gradients over the ranks, in place, while backward is still running. Each bucket starts
/// as soon as it is full, in the same order on every rank, whatever order the tensors become ready in. Every rank gets
/// all sums or, if buckets are divided into parts and there are no leaves, the sums of its own parts.
class Reducer {
 public:
  /// @param gradients  flat, of `layout`
  /// @param leaves     the leaves that ranks contribute to each sum; by default each rank contributes one gradient
  /// @param observer   gets the span "wait for gradients" on the track "compute"; may be null
  /// @param settings   more numbers that have to be equal on all ranks
  /// @throws Error{mismatch} on every rank, naming the ranks, if they differ in layout, dtype or buckets. Collective.
  Reducer(Communicator& communicator, const Layout& layout, Buffer gradients, const BucketOptions& options,
          const Leaves& leaves = {}, Observer* observer = nullptr, const std::vector<std::int64_t>& settings = {});
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  ~Reducer() = default;

  /// Marks the tensor's gradient as complete. Launches its bucket if that is full and all earlier buckets have been
  /// launched.
  /// @pre it was not ready in this step. @throws Error{transport | timeout}
  void ready(int tensor, Queue queue = Queue::host());
  /// Waits until all gradients, or those of this rank's parts, are sums over all ranks, and starts the next step.
  /// @pre all are ready. @throws Error{transport | timeout | mismatch}
  /// @param queue  for buckets that are complete and whose launch in ready() has failed: they are launched again
  void finish(Queue queue = Queue::host());
  /// Does the same as finish(), but makes `queue` wait. The host waits only if the queue is the host's or the
  /// operations run on the host. The next call, or the communicator, throws later failures.
  void order_before(Queue queue);
  /// Ends the registration of the gradients' memory, which may be freed after it.
  void forget_memory() { registration_.reset(); }
  /// Waits for the operations that `order_before` has left pending, and ignores their failures.
  void settle() noexcept { stream_work_.settle(); }
  /// Fills the parts of other ranks in a flat buffer of the layout with the contents that they have on those ranks,
  /// ordered after and before the queue. Collective.
  /// @pre buckets are divided into parts, and none is pending. @throws Error{transport | timeout | mismatch}
  void gather(const Buffer& flat, Queue queue);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Returns this rank's parts, ascending and not adjacent, or the whole layout.
  [[nodiscard]] const std::vector<LayoutPart>& owned() const { return owned_; }
  /// Returns the parts whose sums this rank gets: its own or, with leaves, the whole layout.
  [[nodiscard]] const std::vector<LayoutPart>& summed() const { return scatters() ? owned_ : whole_; }
  /// Returns whether there are sums that this rank does not get.
  [[nodiscard]] bool scatters() const {
    return !buckets_.empty() && !buckets_.front().parts.empty() && leaves_.shares.total() == 0;
  }
  /// Returns the time that this thread has spent waiting for communication in `finish`, `order_before` and `gather`,
  /// since construction.
  [[nodiscard]] double exposed_seconds() const { return exposed_seconds_; }

 private:
  struct Pending {
    int tensors_missing = 0;
    std::optional<Work> work;
  };
  void check_agreement(std::uint64_t own_hash);
  void launch_full_buckets(Queue queue);
  Work reduce(std::size_t bucket, Queue queue);
  void wait_for_all(const char* what);
  void order_all_before(Queue queue);
  void begin_anew();

  Communicator* communicator_;
  const Layout* layout_;
  Buffer gradients_;
  Leaves leaves_;
  Observer* observer_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> labels_;  // by bucket
  std::vector<int> bucket_of_;       // by tensor
  std::vector<Pending> pending_;     // by bucket
  StreamOrderedWork stream_work_;    // operations of earlier steps
  std::shared_ptr<const void> registration_;
  std::vector<LayoutPart> owned_;
  std::vector<LayoutPart> whole_;
  std::size_t launched_ = 0;  // buckets 0 … launched_ − 1 are in flight
  double exposed_seconds_ = 0;
};

}  // namespace lockstep::ddp
