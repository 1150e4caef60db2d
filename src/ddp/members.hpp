// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ddp/process_group.hpp"

namespace lockstep::ddp {

/// The ranks of a group, as what makes communicators of them.
class Members {
 public:
  Members() = default;
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  virtual ~Members() = default;

  [[nodiscard]] virtual const std::string& host() const = 0;
  [[nodiscard]] virtual const std::optional<collectives::Selection>& selection() const = 0;
  /// Makes a communicator of host memory. Collective.
  virtual std::unique_ptr<Communicator> make(Progress& progress, const GroupOptions& options) = 0;
  /// Makes one of device memory. Collective. @throws Error{unsupported}
  virtual std::unique_ptr<Communicator> make_on_device(Progress& progress, const GroupOptions& options) = 0;
  /// Collective. @param over  the ranks of this group
  virtual std::unique_ptr<Members> split(std::optional<int> colour, int key, Communicator& over,
                                         const GroupOptions& options) = 0;
  /// Collective.
  virtual void close() = 0;
};

/// A group of whatever makes communicators.
ProcessGroup group_of(std::unique_ptr<Members> members, GroupOptions options);

/// Collective. @throws as ProcessGroup
std::unique_ptr<Members> members_of(MpiGroup group, const GroupOptions& options);
/// One for each rank, by rank.
std::vector<std::unique_ptr<Members>> members_of_threads(int ranks, const GroupOptions& options);

}  // namespace lockstep::ddp
