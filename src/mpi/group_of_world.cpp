// SPDX-License-Identifier: Apache-2.0
#include "ddp/members.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"

namespace lockstep {
namespace {

GroupOptions with_notice_of(const World& world, GroupOptions options) {
  if (!options.notice) options.notice = world.notice();
  return options;
}

ProcessGroup made(const World& world, GroupOptions options) {
  auto members = ddp::members_of(world.group().dup(), options);
  return ddp::group_of(std::move(members), std::move(options), world.open_groups());
}

}  // namespace

ProcessGroup::ProcessGroup(const World& world, GroupOptions options)
    : ProcessGroup(made(world, with_notice_of(world, std::move(options)))) {}

}  // namespace lockstep
