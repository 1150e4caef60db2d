// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "emulated_gpu/lockstep/ranks.hpp"
#include "platform/gpu/gpu.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/make_node_memory.hpp"
#include "platform/ranks/rank_link.hpp"

namespace lockstep::on_emulated_gpus {

int Processes::gpu() const { return world_.place().local_rank % gpu_count(); }

void Processes::meet() { barrier(world_.group()); }

std::unique_ptr<Communicator> Processes::make(const std::vector<int>& members, Progress& progress,
                                              backends::NcclOptions options, Checked checked) {
  const auto place = std::find(members.begin(), members.end(), rank());
  const auto color = place == members.end() ? std::nullopt : std::optional(0);
  std::optional<RankSet> group = world_.group().split(color, static_cast<int>(place - members.begin()));
  if (!group) return nullptr;
  const auto from_zero = [&](const std::vector<std::byte>& mine) {
    const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), mine.size());
    const std::string of_zero = broadcast_string(*group, bytes, {0});
    const auto* begin = reinterpret_cast<const std::byte*>(of_zero.data());
    return std::vector<std::byte>(begin, begin + of_zero.size());
  };
  options.hostname = group->host();
  options.shape = group->shape();
  options.control = make_control_channel(*group, group->shape());
  if (checked == Checked::yes) options.check = group->link().make_exchange(*group);
  auto communicator = backends::make_nccl({.rank = group->rank(),
                                           .size = group->size(),
                                           .gpu = gpu(),
                                           .agree = [&](const std::optional<Error>& mine) { agree(*group, mine); },
                                           .broadcast_from_zero = from_zero},
                                          progress, options);
  group->close();
  return communicator;
}

}  // namespace lockstep::on_emulated_gpus
