// SPDX-License-Identifier: Apache-2.0
#include "ddp/rank_zero.hpp"

#include <algorithm>

namespace lockstep {

std::string text_of_rank(ProcessGroup& group, const std::string& text, Rank root) {
  std::string all = text;
  auto length = static_cast<std::int64_t>(all.size());
  group.control().broadcast(std::span(&length, 1), root, Queue::host(), "text of a rank").wait();
  all.resize(static_cast<std::size_t>(length));
  group.control().broadcast({all.data(), {length}, DType::uint8}, root, Queue::host(), "text of a rank").wait();
  return all;
}

void throw_on_every_rank(Communicator& communicator, const Error& error) {
  try {
    communicator.barrier("error of all ranks").wait();
  } catch (const Error&) {  // another rank has ended for another reason; what was found here says more
  }
  throw error.on_every_rank();
}

void throw_on_every_rank(ProcessGroup& group, const Error& error) {
  throw_on_every_rank(group.control(), error.reported_by(group.rank().value, group.host()));
}

void on_rank_zero(ProcessGroup& group, const std::function<void()>& work) {
  std::optional<Error> failure;
  try {
    if (group.rank() == Rank{0}) work();
  } catch (const Error& error) {
    failure = error;
  }
  auto code = static_cast<std::int64_t>(failure ? static_cast<int>(failure->code()) : -1);
  group.control().broadcast(std::span(&code, 1), {0}, Queue::host(), "result of rank 0").wait();
  if (code < 0) return;
  const std::string why = text_of_rank(group, failure ? failure->message() : "");
  throw_on_every_rank(group, Error(static_cast<ErrorCode>(code), why));
}

}  // namespace lockstep

namespace lockstep::ddp {
namespace {

constexpr std::size_t longest_host = 256;  // bytes; POSIX allows names of 255

/// Lists the first texts of a list.
template <typename TextOf>
std::string listed(const std::vector<int>& items, const TextOf& text_of) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, items.size()); ++i) text += (i == 0 ? "" : ", ") + text_of(items[i]);
  return items.size() > shown ? text + " and " + std::to_string(items.size() - shown) + " more" : text;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(ranks, [](int rank) { return std::to_string(rank); });
}

std::string names_text(const Layout& layout, const std::vector<int>& parameters) {
  return listed(parameters, [&](int parameter) { return "'" + layout.at(parameter).name + "'"; });
}

std::vector<int> marked(std::span<const std::uint8_t> flags) {
  std::vector<int> indices;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != 0) indices.push_back(static_cast<int>(i));
  return indices;
}

std::vector<MarkedParameters> gather_marked(ProcessGroup& group, const std::vector<std::uint8_t>& flags,
                                            std::string_view label) {
  // The message holds each rank's flags and host name.
  std::vector<std::uint8_t> mine = flags;
  mine.resize(flags.size() + longest_host, 0);
  std::copy_n(group.host().begin(), std::min(group.host().size(), longest_host - 1),
              mine.begin() + static_cast<std::ptrdiff_t>(flags.size()));
  std::vector<std::uint8_t> of_all(mine.size() * static_cast<std::size_t>(group.size()));
  group.control().all_gather(std::span(mine), std::span(of_all), Queue::host(), label).wait();
  std::vector<MarkedParameters> all;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto its = std::span(of_all).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
    const auto host = its.subspan(flags.size());
    std::vector<int> parameters = marked(its.first(flags.size()));
    if (parameters.empty()) continue;
    all.push_back({.rank = rank,
                   .host = std::string(host.begin(), std::find(host.begin(), host.end(), std::uint8_t{0})),
                   .parameters = std::move(parameters)});
  }
  return all;
}

}  // namespace lockstep::ddp
