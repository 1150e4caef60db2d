// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/layout.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/ddp/buckets.hpp"

namespace lockstep::ddp {

/// Sums gradients over ranks while backward is still at work.
///
/// Backward calls `ready` for each tensor and `progress` between layers; `finish` waits for the rest. Buckets are
/// all-reduced in place, in the order of their construction on every rank, whatever order tensors become ready in.
/// A plain sum: whoever applies the gradients divides by the number of samples.
class Reducer {
 public:
  /// @param gradients  flat, of `layout`
  /// @param progress   this rank's; the communicator's own
  /// @param observer   gets the span "wait for gradients" on the track "compute"; may be null
  /// @throws Error{mismatch} on every rank, naming the ranks, if they differ in layout, dtype or buckets. Collective.
  Reducer(Communicator& communicator, Progress& progress, const Layout& layout, Buffer gradients,
          const BucketOptions& options, Observer* observer = nullptr);

  /// The tensor's gradient is complete. All-reduces its bucket if that is full and all before it have been launched.
  /// @throws Error{invalid_argument} naming the tensor if it was ready already; Error{transport | timeout}
  void ready(int tensor);
  /// Moves what is under way, without waiting.
  void progress();
  /// Waits until all gradients are sums over all ranks, and begins anew.
  /// @throws Error{invalid_argument} naming the tensors that never became ready; Error{transport | timeout | mismatch}
  void finish();

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Time that this thread has spent in `finish` waiting for communication, since construction.
  [[nodiscard]] double exposed_seconds() const { return exposed_seconds_; }

 private:
  struct Pending {
    int tensors_missing = 0;
    std::optional<Work> work;
  };
  void check_agreement(std::uint64_t own_hash);
  void launch_full_buckets();
  [[nodiscard]] std::string missing_tensors() const;

  Communicator* communicator_;
  Progress* progress_;
  const Layout* layout_;
  Buffer gradients_;
  Observer* observer_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> labels_;  // of each bucket
  std::vector<int> bucket_of_;       // of each tensor
  std::vector<char> is_ready_;       // of each tensor
  std::vector<Pending> pending_;     // of each bucket
  std::size_t launched_ = 0;         // buckets 0 … launched_ − 1 are under way
  double exposed_seconds_ = 0;
};

}  // namespace lockstep::ddp
