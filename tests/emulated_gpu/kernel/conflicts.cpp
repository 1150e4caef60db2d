// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/conflicts.hpp"

#include <algorithm>
#include <utility>

namespace emulated_gpu {
namespace {

constexpr std::size_t bytes_of_word = 4;

}  // namespace

Conflicts::Conflicts() : records_(SharedMemory::addresses), clocks_(1024, Clock{}) {}

void Conflicts::meet(unsigned warp, unsigned lanes) {
  Clock* const clocks = &clocks_[std::size_t{warp} * lanes_of_warp];
  Clock latest{};
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
    if ((lanes >> lane & 1U) == 0) continue;
    for (unsigned i = 0; i < lanes_of_warp; ++i) latest[i] = std::max(latest[i], clocks[lane][i]);
    latest[lane] = std::max(latest[lane], clocks[lane][lane] + 1);
  }
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane)
    if ((lanes >> lane & 1U) != 0) clocks[lane] = latest;
}

std::optional<Conflicts::Touch> Conflicts::unordered(const Touch& touch, unsigned thread) const {
  if (touch.thread == nobody || touch.thread == thread) return std::nullopt;
  const bool is_of_same_warp = touch.thread / lanes_of_warp == thread / lanes_of_warp;
  if (is_of_same_warp && clocks_[thread][touch.thread % lanes_of_warp] > touch.time) return std::nullopt;
  return touch;
}

std::optional<Conflicts::Touch> Conflicts::unordered(const Touches& touches, unsigned thread) const {
  if (touches.first.thread == nobody) return std::nullopt;
  if (const auto other = unordered(touches.of_another_warp, thread)) return other;
  if (touches.times == 0 || touches.first.thread / lanes_of_warp != thread / lanes_of_warp)
    return unordered(touches.first, thread);
  const Times& times = times_[touches.times - 1];
  const unsigned warp = touches.first.thread / lanes_of_warp * lanes_of_warp;
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane) {
    if ((times.lanes >> lane & 1U) == 0) continue;
    const Touch touch{static_cast<std::uint16_t>(warp + lane), times.of_lane[lane], touches.first.place};
    if (const auto found = unordered(touch, thread)) return found;
  }
  return std::nullopt;
}

void Conflicts::add(Touches& touches, const Touch& touch) {
  if (touches.first.thread == nobody || (touches.first.thread == touch.thread && touches.times == 0)) {
    touches.first = touch;
    return;
  }
  if (touches.first.thread / lanes_of_warp != touch.thread / lanes_of_warp) {
    touches.of_another_warp = touch;
    return;
  }
  if (touches.times == 0) {
    times_.emplace_back();
    touches.times = static_cast<std::uint32_t>(times_.size());
    times_.back().lanes = 1U << touches.first.thread % lanes_of_warp;
    times_.back().of_lane[touches.first.thread % lanes_of_warp] = touches.first.time;
  }
  Times& times = times_[touches.times - 1];
  times.lanes |= 1U << touch.thread % lanes_of_warp;
  times.of_lane[touch.thread % lanes_of_warp] = touch.time;
}

std::optional<Conflicts::Conflict> Conflicts::note(Record& record, Access access, const Touch& touch) {
  const auto conflict = [](const Touch& with, Access kind) { return Conflict{with.thread, kind, with.place}; };
  if (const auto with = unordered(record.write, touch.thread)) return conflict(*with, Access::write);
  if (access != Access::atomic)
    if (const auto with = unordered(record.atomics, touch.thread)) return conflict(*with, Access::atomic);
  if (access != Access::read)
    if (const auto with = unordered(record.reads, touch.thread)) return conflict(*with, Access::read);
  switch (access) {
    case Access::read: add(record.reads, touch); break;
    case Access::atomic: add(record.atomics, touch); break;
    case Access::write:
      record.write = touch;
      record.reads = {};  // one by one: a copy would wait until the other is in the cache
      record.atomics = {};
      break;
  }
  return std::nullopt;
}

void Conflicts::split(std::size_t word) {
  Record& first = records_[word];
  if (std::exchange(first.is_split, true)) return;
  for (std::size_t i = word + 1; i < word + bytes_of_word; ++i) {
    records_[i] = first;
    for (Touches* touches : {&records_[i].reads, &records_[i].atomics}) {
      if (touches->times == 0) continue;
      times_.push_back(Times(times_[touches->times - 1]));
      touches->times = static_cast<std::uint32_t>(times_.size());
    }
  }
}

std::optional<Conflicts::Conflict> Conflicts::note(std::size_t offset, std::size_t bytes, Access access,
                                                   unsigned thread, const void* place) {
  if (times_phase_ != phase_) {
    times_.clear();
    times_phase_ = phase_;
  }
  const Touch touch{static_cast<std::uint16_t>(thread), clocks_[thread][thread % lanes_of_warp], place};
  for (std::size_t i = offset; i < offset + bytes;) {
    const std::size_t word = i / bytes_of_word * bytes_of_word;
    Record& record = records_[word];
    if (record.phase != phase_) record = {.phase = phase_, .is_split = false, .write = {}, .reads = {}, .atomics = {}};
    const bool is_whole = i == word && i + bytes_of_word <= offset + bytes;
    if (!is_whole) split(word);
    if (const auto conflict = note(records_[i], access, touch)) return conflict;
    i += is_whole && !record.is_split ? bytes_of_word : 1;
  }
  return std::nullopt;
}

}  // namespace emulated_gpu
