// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/flight_recorder.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep {

void SharedText::store(std::string_view text) noexcept {
  std::array<char, longest> bytes{};
  std::memcpy(bytes.data(), text.data(), std::min(text.size(), longest));
  const std::uint32_t before = version_.load(std::memory_order_relaxed);
  version_.store(before + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
    words_[i].store(word, std::memory_order_release);  // a reader that sees it sees the odd version, too
  }
  version_.store(before + 2, std::memory_order_release);
}

std::string SharedText::load() const {
  const std::uint32_t now = version_.load(std::memory_order_acquire);
  if (now % 2 != 0) return {};
  std::array<char, longest + 1> bytes{};
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t word = words_[i].load(std::memory_order_acquire);
    std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
  }
  return version_.load(std::memory_order_relaxed) == now ? bytes.data() : std::string();
}

/// Only one thread writes.
void FlightRecorder::increment(std::atomic<std::uint64_t>& number) noexcept {
  number.store(number.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

std::uint64_t FlightRecorder::begin(CollectiveKind kind, std::string_view label, Bytes bytes) noexcept {
  const std::uint64_t number = count_.load(std::memory_order_relaxed);
  Entry& entry = entries_[number % remembered];
  entry.number_plus_one.store(0, std::memory_order_relaxed);
  const std::chrono::nanoseconds now = Clock::now().time_since_epoch();
  entry.submitted.store(now.count(), std::memory_order_release);
  entry.bytes.store(bytes.value, std::memory_order_release);
  entry.step.store(step_.load(std::memory_order_relaxed), std::memory_order_release);
  entry.kind.store(static_cast<std::uint32_t>(kind), std::memory_order_release);
  entry.has_ended.store(0, std::memory_order_release);
  entry.label.store(label);
  entry.number_plus_one.store(number + 1, std::memory_order_release);
  count_.store(number + 1, std::memory_order_release);
  increment(advances_);
  increment(operation_advances_);
  return number;
}

void FlightRecorder::end(std::uint64_t number) noexcept {
  Entry& entry = entries_[number % remembered];
  if (entry.number_plus_one.load(std::memory_order_relaxed) == number + 1)
    entry.has_ended.store(1, std::memory_order_release);
  increment(advances_);
  increment(operation_advances_);
}

void FlightRecorder::set_step(std::int64_t step) noexcept {
  step_.store(step, std::memory_order_relaxed);
  increment(advances_);
}

void FlightRecorder::set_task(std::string_view task) noexcept {
  task_.store(task);
  increment(advances_);
}

std::optional<FlightRecorder::Operation> FlightRecorder::read(std::uint64_t number) const {
  const Entry& entry = entries_[number % remembered];
  if (entry.number_plus_one.load(std::memory_order_acquire) != number + 1) return std::nullopt;
  Operation operation{.number = number,
                      .kind = static_cast<CollectiveKind>(entry.kind.load(std::memory_order_acquire)),
                      .label = entry.label.load(),
                      .bytes = {entry.bytes.load(std::memory_order_acquire)},
                      .step = entry.step.load(std::memory_order_acquire),
                      .is_pending = entry.has_ended.load(std::memory_order_acquire) == 0,
                      .submitted = Clock::time_point(std::chrono::duration_cast<Clock::duration>(
                          std::chrono::nanoseconds(entry.submitted.load(std::memory_order_acquire))))};
  if (entry.number_plus_one.load(std::memory_order_relaxed) != number + 1) return std::nullopt;
  return operation;
}

std::vector<FlightRecorder::Operation> FlightRecorder::operations() const {
  const std::uint64_t count = count_.load(std::memory_order_acquire);
  std::vector<Operation> kept;
  for (std::uint64_t number = count - std::min(count, remembered); number < count; ++number)
    if (auto operation = read(number)) kept.push_back(*std::move(operation));
  return kept;
}

}  // namespace lockstep
