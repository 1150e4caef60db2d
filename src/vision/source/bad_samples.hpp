// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "vision/source/source.hpp"

namespace lockstep::vision {

/// What a run does about a sample whose contents are at fault: it stops with the error, or skips the sample. Training
/// then takes the next good sample in its place, and evaluation leaves it out. Errors of reading always stop a run,
/// because they may pass, and then the result would depend on when they occurred.
enum class OnBadSample { stop, skip };

/// The bad samples of a part that were met, with the reason of each. All functions may be called by several threads at
/// once.
class BadSamples {
 public:
  /// @param part  name of the part of the data in the list: "training"
  explicit BadSamples(std::string part) : part_(std::move(part)) {}

  /// Adds a sample, once. @param place  as Source::place returns it
  void add(std::int64_t sample, std::string place, std::string reason);
  [[nodiscard]] bool contains(std::int64_t sample) const;
  [[nodiscard]] std::int64_t count() const { return count_.load(std::memory_order_relaxed); }
  /// Returns a line for each sample, in their order: part, number, place and reason, with tabs between them.
  [[nodiscard]] std::string text() const;

 private:
  struct Entry {
    std::string place;
    std::string reason;
  };

  std::string part_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Entry> entries_;
  std::atomic<std::int64_t> count_ = 0;  // read without the mutex by threads that load good samples
};

/// Unites what BadSamples::text has returned on several ranks and for several parts: a line for each sample, sorted by
/// part and number. It is what the file bad_samples.txt of a run holds.
std::string united(std::span<const std::string> texts);

/// Loads a sample, or the first good one after it in the order of the data, of which the first follows the last. Which
/// one that is depends on the contents of the data only.
/// @param load  loads a sample, by number; throws Error{corrupt} if its contents are at fault
/// @param bad   gets the bad samples that are met; those that it has are not loaded again
/// @return the number of the loaded sample
/// @throws Error{corrupt} if no sample is good; whatever else `load` throws, such as Error{io}
std::int64_t load_next_good(const Source& source, std::int64_t sample, BadSamples& bad,
                            const std::function<void(std::int64_t)>& load);

}  // namespace lockstep::vision
