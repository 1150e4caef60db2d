// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/make_communicator.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep::ddp {

/// @throws Error{invalid_argument} for a number that is none of the enumerators
void require_device(Device device);

/// The ranks of a group, and the factory of their communicators.
class Members {
 public:
  /// @param gpu  this rank's, chosen once for all communicators of this group and of groups split from it; none on
  /// `cpu`
  Members(RankSet ranks, backends::CommunicatorOptions options, std::optional<int> gpu);
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  virtual ~Members() = default;

  [[nodiscard]] const std::string& host() const { return ranks_.host(); }
  /// Returns this rank's GPU as a CUDA device index, if the group is on GPUs.
  [[nodiscard]] std::optional<int> gpu() const { return gpu_; }
  /// Returns the record of this rank's operations; null if there is none.
  [[nodiscard]] std::shared_ptr<FlightRecorder> recorder() const;
  /// As `RankSet::explain_ranks`.
  [[nodiscard]] std::string explain_ranks() const { return ranks_.explain_ranks(); }
  /// Returns how algorithms are chosen in host memory; null if the MPI library chooses.
  [[nodiscard]] const collectives::Selection* selection() const { return options_.selection(); }

  /// The group's first communicator is compressed and observed, and gives notices; the others are not.
  enum class Use { first, further };
  /// Makes a communicator for host memory. Collective.
  std::unique_ptr<Communicator> make(Progress& progress, Use use);
  /// Makes a communicator for device memory. Collective. Tests replace it. @throws Error{unsupported}
  virtual std::unique_ptr<Communicator> make_on_device(Progress& progress, Use use);
  /// Splits the group. Collective.
  std::unique_ptr<Members> split(std::optional<int> color, int key, const GroupOptions& options);
  /// Closes the members. Collective.
  void close() { ranks_.close(); }
  /// A function that says whether nothing can be sent any more, because the library that carries it has ended.
  using HasEnded = bool (*)();
  [[nodiscard]] HasEnded has_ended() const { return has_ended_; }
  /// Checks that what the ranks communicate by still exists; it does not communicate. @throws Error{invalid_argument}
  void check_may_close() const;
  /// Whether another thread than the one that made the group may use it.
  [[nodiscard]] bool may_change_threads() const;

 private:
  RankSet ranks_;
  backends::CommunicatorOptions options_;  // what this cluster lacks is noted there, for further communicators
  HasEnded has_ended_;
  std::optional<int> gpu_;
};

/// The options of a group as values: the names that a user has given are parsed.
struct ParsedOptions {
  backends::CommunicatorOptions values;
  std::optional<Error> failure;  ///< Error{invalid_argument} for an unknown algorithm or choice of sockets
};
/// @param exact  replaces the algorithm that the options name: a name has no parameters, such as segments
ParsedOptions parse(const GroupOptions& options, const std::optional<backends::Method>& exact = std::nullopt);

/// Makes a group of the given members.
/// @param open_groups  of the World that the ranks belong to, which closes the group; null if there is none
ProcessGroup group_of(std::unique_ptr<Members> members, GroupOptions options,
                      std::shared_ptr<OpenGroups> open_groups = nullptr);

/// Makes the members of a group. Collective. @throws as ProcessGroup
/// @param gpu  this rank's GPU, if it has been chosen: on all ranks or on none
/// @param exact  as for `parse`
std::unique_ptr<Members> members_of(RankSet ranks, const GroupOptions& options, std::optional<int> gpu = std::nullopt,
                                    const std::optional<backends::Method>& exact = std::nullopt);

}  // namespace lockstep::ddp
