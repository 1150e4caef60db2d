// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the handles of lockstep.h hold, and what its functions have in common.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lockstep.h"
#include "lockstep/lockstep.hpp"

namespace lockstep::bindings {

class Environment;

/// A group, as long as anything uses it.
struct GroupState {
  std::shared_ptr<Environment> environment;  // of groups from the environment
  std::optional<ProcessGroup> group;
  std::map<void*, Allocation> memory;
  std::atomic<bool> has_failed = false;  // an operation has, so that ranks are no longer in step

  [[nodiscard]] Communicator& communicator() const { return group->communicator(); }
};

/// Keeps an exception as the last error of this thread. @return its code @pre in a catch clause
int keep_current_error(GroupState* group) noexcept;

/// Calls f, which may throw. @param group  whose operations f submits or waits for; may be null @return the code
template <typename F>
int guarded(GroupState* group, const F& f) noexcept {
  try {
    f();
    return LOCKSTEP_SUCCESS;
  } catch (...) {
    return keep_current_error(group);
  }
}

[[noreturn]] inline void refuse(const std::string& what) { throw Error(ErrorCode::invalid_argument, what); }

template <typename T>
void require(const T* pointer, const char* what) {
  if (pointer == nullptr) refuse(std::string(what) + " is a null pointer");
}

/// Returns the fields that the caller knows, and zeros for the others.
/// @throws Error{invalid_argument} if the size was not set; Error{unsupported} for fields of a later version
template <typename T>
T read(const T* given, const char* type) {
  T known{};
  known.size = sizeof known;
  if (given == nullptr) return known;
  constexpr std::size_t most = 4096;
  if (given->size < sizeof(std::size_t) || given->size > most)
    refuse(std::string(type) + "::size is " + std::to_string(given->size) + ": set it by LOCKSTEP_INIT(" + type + ")");
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (given->size > sizeof known &&
      std::any_of(bytes + sizeof known, bytes + given->size, [](unsigned char byte) { return byte != 0; }))
    throw Error(ErrorCode::unsupported,
                std::string(type) + " has fields that this lockstep lacks: load a later liblockstep_c");
  return known;
}

/// Writes the fields that the caller knows. @throws as read
template <typename T>
void write(T* to, T from, const char* type) {
  static_cast<void>(read(to, type));
  from.size = to->size;
  std::memcpy(to, &from, std::min(to->size, sizeof from));
}

inline std::string text_of(const char* text, const char* otherwise = "") { return text == nullptr ? otherwise : text; }

inline MemoryKind memory_kind(int memory) {
  if (memory != LOCKSTEP_HOST_MEMORY && memory != LOCKSTEP_DEVICE_MEMORY)
    refuse("the memory is the number " + std::to_string(memory) + ", which is no lockstep_memory");
  return memory == LOCKSTEP_DEVICE_MEMORY ? MemoryKind::device : MemoryKind::host;
}

/// Waits until an operation has ended, in pieces, between which other threads have the turn. @throws as Work::wait
template <typename Pending>
void wait_in_turns(const GroupState& state, Pending& pending) {
  constexpr std::chrono::milliseconds piece{1};
  for (;;) {
    {
      const auto turn = state.group->take_turn();
      if (pending.wait(piece)) return;
    }
    std::this_thread::yield();
  }
}

}  // namespace lockstep::bindings

struct lockstep_group {
  std::shared_ptr<lockstep::bindings::GroupState> state;
};

struct lockstep_work {
  std::shared_ptr<lockstep::bindings::GroupState> group;
  lockstep::Work work;
};

struct lockstep_prepared {
  std::shared_ptr<lockstep::bindings::GroupState> group;
  lockstep::Prepared prepared;
};

struct lockstep_parallel {
  std::shared_ptr<lockstep::bindings::GroupState> group;
  lockstep::DataParallel parallel;
  std::unique_ptr<lockstep::DataParallel::NoSync> no_sync;
  lockstep::DataParallel::Step last;
};

struct lockstep_checkpoint {
  std::shared_ptr<lockstep::bindings::GroupState> group;
  lockstep::Checkpoint checkpoint;
};
