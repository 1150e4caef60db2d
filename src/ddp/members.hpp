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
  /// This rank's, by CUDA's index, once `make_on_device` has chosen it.
  [[nodiscard]] virtual std::optional<int> gpu() const { return std::nullopt; }
  [[nodiscard]] virtual const std::optional<collectives::Selection>& selection() const = 0;
  /// Makes a communicator of host memory. Collective.
  virtual std::unique_ptr<Communicator> make(Progress& progress, const GroupOptions& options) = 0;
  /// Makes one of device memory. Collective. @throws Error{unsupported}
  virtual std::unique_ptr<Communicator> make_on_device(Progress& progress, const GroupOptions& options) = 0;
  /// Collective. @param over  the ranks of this group
  virtual std::unique_ptr<Members> split(std::optional<int> color, int key, Communicator& over,
                                         const GroupOptions& options) = 0;
  /// Collective.
  virtual void close() = 0;
};

/// A group of whatever makes communicators.
ProcessGroup group_of(std::unique_ptr<Members> members, GroupOptions options);

/// Collective. @throws as ProcessGroup
/// @param gpu  of this rank, where one has been chosen: on all ranks or on none
std::unique_ptr<Members> members_of(MpiGroup group, const GroupOptions& options, std::optional<int> gpu = std::nullopt);
/// One for each rank, by rank.
std::vector<std::unique_ptr<Members>> members_of_threads(int ranks, const GroupOptions& options);

}  // namespace lockstep::ddp
