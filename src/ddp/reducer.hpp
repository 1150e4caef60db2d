// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "ddp/buckets.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::ddp {

/// Sums the buckets of flat gradients over ranks, in place, while backward is still at work: each as soon as it is
/// full, in the order of their construction on every rank, whatever order tensors become ready in. Every rank gets all
/// sums, or, where buckets are cut into parts and ranks bring no leaves, those of its own.
class Reducer {
 public:
  /// @param gradients  flat, of `layout`
  /// @param leaves     that ranks bring of each element; none: one each
  /// @param observer   gets the span "wait for gradients" on the track "compute"; may be null
  /// @param compare_every  steps between comparisons of values, which the ranks have to agree on as well
  /// @throws Error{mismatch} on every rank, naming the ranks, if they differ in layout, dtype or buckets. Collective.
  Reducer(Communicator& communicator, const Layout& layout, Buffer gradients, const BucketOptions& options,
          const Leaves& leaves = {}, Observer* observer = nullptr, std::int64_t compare_every = 0);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  /// Waits for nobody.
  ~Reducer();

  /// The tensor's gradient is complete. Reduces its bucket if that is full and all before it have been launched.
  /// @pre it was not ready in this step. @throws Error{transport | timeout}
  void ready(int tensor, Queue queue = Queue::host());
  /// Waits until all gradients are sums over all ranks, or those of this rank's parts are, and begins anew.
  /// @pre all are ready. @throws Error{transport | timeout | mismatch}
  void finish();
  /// As finish(), but that `queue` waits, and the host only where it is the host's, or the operations run there. What
  /// fails later is thrown by the next call, or by the communicator.
  void then(Queue queue);
  /// Waits for what `then` has left under way, whatever becomes of it.
  void settle() noexcept;
  /// Overwrites all but this rank's parts of a flat buffer of the layout with what their ranks have there. Collective.
  /// @pre buckets are cut into parts, and none is under way. @throws Error{transport | timeout | mismatch}
  void gather(const Buffer& flat);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  /// This rank's parts, or the whole layout. Ascending, with something between them.
  [[nodiscard]] const std::vector<LayoutPart>& owned() const { return owned_; }
  /// Whose sums this rank gets: the same, or of leaves the whole layout.
  [[nodiscard]] const std::vector<LayoutPart>& summed() const { return scatters() ? owned_ : whole_; }
  /// Whether there are sums that this rank does not get.
  [[nodiscard]] bool scatters() const {
    return !buckets_.empty() && !buckets_.front().parts.empty() && leaves_.total == 0;
  }
  /// Time that this thread has spent in `finish`, `then` and `gather` waiting for communication, since construction.
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
  void begin_anew();
  void wait_for_first_behind();

  Communicator* communicator_;
  const Layout* layout_;
  Buffer gradients_;
  Leaves leaves_;
  Observer* observer_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> labels_;  // of each bucket
  std::vector<int> bucket_of_;       // of each tensor
  std::vector<Pending> pending_;     // of each bucket
  std::deque<Work> behind_;          // of earlier steps, which only a queue has waited for
  std::vector<LayoutPart> owned_;
  std::vector<LayoutPart> whole_;
  std::size_t launched_ = 0;  // buckets 0 … launched_ − 1 are under way
  double exposed_seconds_ = 0;
};

}  // namespace lockstep::ddp
