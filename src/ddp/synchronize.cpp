// SPDX-License-Identifier: Apache-2.0
#include "ddp/synchronize.hpp"

#include <cstddef>
#include <cstdint>

#include "base/hash.hpp"
#include "ddp/memory.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ddp {
namespace {

void broadcast(Communicator& communicator, const std::vector<Buffer>& values) {
  std::vector<Work> under_way;
  under_way.reserve(values.size());
  for (const Buffer& buffer : values)
    under_way.push_back(communicator.broadcast(buffer, {0}, Queue::host(), "initial parameters"));
  for (Work& work : under_way) work.wait();
}

void compare(ProcessGroup& group, const std::vector<Buffer>& values) {
  Fnv1a hash;
  for (const Buffer& buffer : values) hash.add(static_cast<std::int64_t>(fingerprint(buffer)));
  std::vector<int> others = ranks_unlike_zero(group.control(), hash.value(), "initial parameters");
  if (others.empty()) return;
  throw Error(
      ErrorCode::mismatch,
      "the initial parameters of the ranks named here are not rank 0's: do all ranks make them from the same "
      "seed, with the same build, on the same kind of processor? Broadcasting them makes them equal",
      {.operation = "initial parameters", .rank = group.rank().value, .host = group.host(), .peers = std::move(others)})
      .on_every_rank();
}

}  // namespace

void synchronize(ProcessGroup& group, const std::vector<Buffer>& values, InitialValues how) {
  how == InitialValues::broadcast ? broadcast(group.communicator(), values) : compare(group, values);
}

}  // namespace lockstep::ddp
