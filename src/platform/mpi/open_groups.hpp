// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A group that was made of a World's ranks and is open. It is used on the thread that made it.
class OpenGroup {
 public:
  virtual ~OpenGroup() = default;
  /// Collective. @throws Error, also where an operation is under way
  virtual void close() = 0;
  /// Lets the operations of the other ranks fail, and makes no MPI calls from then on.
  virtual void abandon(std::string_view why) noexcept = 0;
};

/// The groups of a World that are open, in the order in which they were made. The World closes them before MPI ends.
class OpenGroups {
 public:
  void add(OpenGroup& group) { groups_.push_back(&group); }
  void remove(const OpenGroup& group) { std::erase(groups_, &group); }

  /// Keeps what a group's destructor found and could not throw.
  void keep(std::exception_ptr failure) {
    if (!failure_) failure_ = std::move(failure);
  }

  /// Closes the last first, as destructors would. @throws what was kept, once; as OpenGroup::close
  void close_all() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    while (!groups_.empty()) {
      OpenGroup& last = *groups_.back();
      last.close();
      remove(last);
    }
  }
  void abandon_all(std::string_view why) noexcept {
    for (OpenGroup* const group : groups_) group->abandon(why);
    groups_.clear();
  }

 private:
  std::vector<OpenGroup*> groups_;
  std::exception_ptr failure_;
};

}  // namespace lockstep
