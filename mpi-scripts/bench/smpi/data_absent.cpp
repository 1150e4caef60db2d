// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <simgrid/s4u/Actor.hpp>

#include "kernels/reduce.hpp"
#include "mpi-scripts/bench/smpi/data.hpp"

namespace simgrid::smpi {

/// SMPI's state of a rank. Its library exports it, but no public header declares it. A rank that replays a trace has no
/// data, so SMPI's own all-reduces, too, then work without copies, sums and buffers.
class ActorExt {
 public:
  static xbt::Extension<s4u::Actor, ActorExt> EXTENSION_ID;
  void set_replaying(bool value);
};

}  // namespace simgrid::smpi

namespace lockstep::kernels {

// These replace the library's functions, because arithmetic on absent data would cost real time but no simulated time.
void reduce(void* /*out*/, const void* /*a*/, const void* /*b*/, Count /*count*/, DType /*dtype*/, ReduceOp /*op*/) {}
void fill_neutral(void* /*out*/, Count /*count*/, DType /*dtype*/, ReduceOp /*op*/) {}

}  // namespace lockstep::kernels

namespace lockstep {

namespace {

/// Memory that becomes resident where it is touched.
struct Region {
  static constexpr std::int64_t size = std::int64_t{1} << 30;
  std::byte* begin = static_cast<std::byte*>(
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  Region() {
    if (begin == MAP_FAILED) throw std::bad_alloc();
  }
};

}  // namespace

// This replaces the library's function, also for scratch. All ranks get the same memory, at a different offset each
// time. Most of SMPI's functions do not touch it, but some do.
Allocation allocate_host(Bytes bytes) {
  static const Region region;
  static std::int64_t allocations = 0;
  const std::int64_t offset = 64 * (allocations++ % 1024);
  if (bytes.value > Region::size - offset) throw std::bad_alloc();
  return {region.begin + offset, bytes, MemoryKind::host, [](void*) {}};
}

}  // namespace lockstep

namespace lockstep::smpi {

void fill(const Buffer& /*buffer*/, int /*me*/) {}
std::int64_t wrong(const Buffer& /*buffer*/, int /*ranks*/) { return 0; }

void leave_data_out() { simgrid::s4u::Actor::self()->extension<simgrid::smpi::ActorExt>()->set_replaying(true); }

}  // namespace lockstep::smpi
