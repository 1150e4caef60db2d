// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "base/origin_process.hpp"

namespace lockstep {

/// An open group that was made from a World's ranks. It is used on the thread that made it.
class OpenGroup {
 public:
  virtual ~OpenGroup() = default;
  /// Collective. @throws Error, also if an operation is under way
  virtual void close() = 0;
  /// Makes the operations of the other ranks fail, and makes no MPI calls afterwards.
  virtual void abandon(std::string_view why) noexcept = 0;
};

/// The open groups of a World, in the order in which they were made. The World closes them before MPI ends.
class OpenGroups {
 public:
  /// The process that made the World.
  [[nodiscard]] const OriginProcess& origin() const { return origin_; }

  void add(OpenGroup& group) { groups_.push_back(&group); }
  void remove(const OpenGroup& group) { std::erase(groups_, &group); }

  /// Keeps an exception that a group's destructor could not throw.
  void keep(std::exception_ptr failure) {
    if (!failure_) failure_ = std::move(failure);
  }

  /// Closes the groups, the last one first, as destructors would. @throws the kept exception, once; as OpenGroup::close
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
  OriginProcess origin_;
  std::vector<OpenGroup*> groups_;
  std::exception_ptr failure_;
};

}  // namespace lockstep
