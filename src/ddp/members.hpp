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
  explicit Members(backends::CommunicatorOptions options) : options_(std::move(options)) {}
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  virtual ~Members() = default;

  [[nodiscard]] virtual const std::string& host() const = 0;
  /// Returns this rank's GPU as a CUDA device index, if the group is on GPUs.
  [[nodiscard]] virtual std::optional<int> gpu() const { return std::nullopt; }
  /// Returns the record of this rank's operations; null if there is none.
  [[nodiscard]] virtual std::shared_ptr<FlightRecorder> recorder() const { return nullptr; }
  /// As `RankSet::explain_ranks`.
  [[nodiscard]] virtual std::string explain_ranks() const { return {}; }
  /// Returns how algorithms are chosen in host memory; null if the MPI library chooses.
  [[nodiscard]] const collectives::Selection* selection() const { return options_.selection(); }

  /// The group's first communicator is compressed and observed, and gives notices; the others are not.
  enum class Use { first, further };
  /// Makes a communicator for host memory. Collective.
  std::unique_ptr<Communicator> make(Progress& progress, Use use);
  /// Makes a communicator for device memory. Collective. @throws Error{unsupported}
  virtual std::unique_ptr<Communicator> make_on_device(Progress& progress, Use use) = 0;
  /// Splits the group. Collective. @param over  a communicator of all ranks of this group
  virtual std::unique_ptr<Members> split(std::optional<int> color, int key, Communicator& over,
                                         const GroupOptions& options) = 0;
  /// Closes the members. Collective.
  virtual void close() = 0;
  /// A function that says whether nothing can be sent any more, because the library that carries it has ended.
  using HasEnded = bool (*)();
  [[nodiscard]] virtual HasEnded has_ended() const {
    return [] { return false; };
  }
  /// Checks that what the ranks communicate by still exists; it does not communicate. @throws Error{invalid_argument}
  virtual void check_may_close() const {}
  /// Whether another thread than the one that made the group may use it.
  [[nodiscard]] virtual bool may_change_threads() const { return true; }

 protected:
  [[nodiscard]] const backends::CommunicatorOptions& options() const { return options_; }

 private:
  /// @param options  what this cluster lacks is noted there, for the group's further communicators
  virtual std::unique_ptr<Communicator> make_on_host(Progress& progress, backends::CommunicatorOptions& options) = 0;

  backends::CommunicatorOptions options_;
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

/// Makes the members of a group of processes. Collective. @throws as ProcessGroup
/// @param gpu  this rank's GPU, if it has been chosen: on all ranks or on none
/// @param exact  as for `parse`
std::unique_ptr<Members> members_of(RankSet group, const GroupOptions& options, std::optional<int> gpu = std::nullopt,
                                    const std::optional<backends::Method>& exact = std::nullopt);
/// Makes the members of a group whose ranks are threads, by rank.
std::vector<std::unique_ptr<Members>> members_of_threads(int ranks, const GroupOptions& options);

}  // namespace lockstep::ddp
