// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep {

/// Returns the text of one rank, rank 0 unless `root` names another, on every rank. Collective.
std::string text_of_rank(ProcessGroup& group, const std::string& text, Rank root = {0});

/// Throws an error that every rank finds in values that all ranks have. Collective: it waits until the last rank has
/// these values, because a rank that destroys its group while the error propagates ends the operations of the others,
/// which would then report nothing.
/// @throws Error  always, marked by Error::on_every_rank
[[noreturn]] void throw_on_every_rank(Communicator& communicator, const Error& error);
/// Does the same with the group's control communicator, and fills in this rank and its host.
[[noreturn]] void throw_on_every_rank(ProcessGroup& group, const Error& error);

/// Runs `work`, whose errors name this rank and its host then.
template <typename Work>
auto reported_by_rank(const ProcessGroup& group, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw error.reported_by(group.rank().value, group.host());
  }
}
/// Does the same with work whose errors occur on every rank if they occur on one.
template <typename Work>
auto on_every_rank(const ProcessGroup& group, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw error.reported_by(group.rank().value, group.host()).on_every_rank();
  }
}

/// Gathers a value of each rank, of a type without pointers. Collective. @return by rank
template <typename T>
std::vector<T> gather_values(ProcessGroup& group, T own, std::string_view label) {
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  const auto bytes = [](std::span<T> values) {
    return std::span(reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes());
  };
  group.control().all_gather(bytes({&own, 1}), bytes(all), Queue::host(), label).wait();
  return all;
}

/// Runs `work` on rank 0 only. Collective. @throws on every rank the Error that rank 0 throws
void on_rank_zero(ProcessGroup& group, const std::function<void()>& work);

}  // namespace lockstep

namespace lockstep::ddp {

/// Parameters that a rank has marked.
struct MarkedParameters {
  int rank = 0;
  std::string host;
  std::vector<int> parameters;  ///< indices, ascending
};

/// Names ranks for a message, "rank 1" or "ranks 1, 2", of many only the first.
std::string ranks_text(const std::vector<int>& ranks);
/// Names parameters for a message, "'a', 'b'", of many only the first.
std::string names_text(const Layout& layout, const std::vector<int>& parameters);

/// Returns the indices of the flags that are set.
std::vector<int> marked(std::span<const std::uint8_t> flags);

/// Returns the ranks that have marked parameters, in their order. Collective.
/// @param flags  this rank's, by parameter
std::vector<MarkedParameters> gather_marked(ProcessGroup& group, const std::vector<std::uint8_t>& flags,
                                            std::string_view label);

}  // namespace lockstep::ddp
