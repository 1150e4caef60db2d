// SPDX-License-Identifier: Apache-2.0
// memory_limit measures the shortest time of an all-reduce in memory shared by two ranks. Each rank reads its half of
// its own and of the peer's buffer and writes that half of both, as an all-reduce does, but without its arithmetic and
// without flags. The written data differ from the old data, as sums do, because some processors do not write a line
// back to memory that was overwritten with its own contents. Compile it for the processor that it runs on. Flags and
// exit codes: run_peer.
#include <fcntl.h>
#include <immintrin.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "apps/comm-bench/exercise.hpp"
#include "lockstep/base/types.hpp"
#include "mpi-scripts/bench/peers/peer.hpp"

namespace lockstep::peers {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what + ": " + std::strerror(errno));
}

/// Opens the same anonymous file in both processes. Collective.
int open_shared(int rank, std::int64_t bytes) {
  std::array<int, 2> place = {getpid(), -1};
  if (rank == 0) {
    place[1] = memfd_create("lockstep-memory-limit", MFD_CLOEXEC);
    require(place[1] >= 0 && ftruncate(place[1], bytes) == 0, "cannot make memory to share");
  }
  MPI_Bcast(place.data(), 2, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) return place[1];
  const std::string path = "/proc/" + std::to_string(place[0]) + "/fd/" + std::to_string(place[1]);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(file >= 0, "cannot open the other rank's " + path);
  return file;
}

/// Two buffers in one block of memory that both ranks of a job have mapped.
class SharedPair {
 public:
  /// Collective over MPI_COMM_WORLD. @throws std::runtime_error unless there are two ranks, on one machine
  explicit SharedPair(Bytes each);
  SharedPair(const SharedPair&) = delete;
  SharedPair& operator=(const SharedPair&) = delete;
  ~SharedPair();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] void* own() const { return buffer(rank_); }
  [[nodiscard]] void* peer() const { return buffer(1 - rank_); }

 private:
  [[nodiscard]] void* buffer(int rank) const { return static_cast<std::byte*>(memory_) + rank * stride_; }

  int rank_ = 0;
  std::ptrdiff_t stride_ = 0;
  void* memory_ = nullptr;
};

SharedPair::SharedPair(Bytes each) {
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) throw std::runtime_error("this is for 2 ranks, not " + std::to_string(ranks));
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  stride_ = (each.value + page - 1) / page * page;
  const int file = open_shared(rank_, 2 * stride_);
  memory_ = mmap(nullptr, static_cast<std::size_t>(2 * stride_), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(memory_ != MAP_FAILED, "cannot map shared memory");
  std::memset(own(), 0, static_cast<std::size_t>(stride_));
  MPI_Barrier(MPI_COMM_WORLD);  // until here the file must stay open for the other rank
  close(file);
}

SharedPair::~SharedPair() { munmap(memory_, static_cast<std::size_t>(2 * stride_)); }

enum class Stores { cached, streaming };

#ifdef __AVX512F__
using Vector = __m512;
Vector load(const float* from) { return _mm512_load_ps(from); }
void store(float* to, Vector v) { _mm512_store_ps(to, v); }
void stream(float* to, Vector v) { _mm512_stream_ps(to, v); }
#else
using Vector = __m128;
Vector load(const float* from) { return _mm_load_ps(from); }
void store(float* to, Vector v) { _mm_store_ps(to, v); }
void stream(float* to, Vector v) { _mm_stream_ps(to, v); }
#endif
constexpr std::int64_t lanes = sizeof(Vector) / sizeof(float);

template <Stores stores>
void write(float* to, Vector v) {
  if constexpr (stores == Stores::streaming) {
    stream(to, v);
  } else {
    store(to, v);
  }
}

/// Reads both buffers and overwrites each with the other.
template <Stores stores>
void exchange(float* own, float* peer, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Vector mine = load(own + i);
    const Vector theirs = load(peer + i);
    write<stores>(own + i, theirs);
    write<stores>(peer + i, mine);
  }
  std::swap_ranges(own + i, own + count, peer + i);
  if constexpr (stores == Stores::streaming) _mm_sfence();
}

/// Returns the rank's half. The boundary is the end of a cache line, so that the ranks share no line.
std::pair<std::int64_t, std::int64_t> half_of(int rank, std::int64_t count) {
  const std::int64_t middle = count / 2 / 16 * 16;
  return rank == 0 ? std::pair(std::int64_t{0}, middle) : std::pair(middle, count - middle);
}

class Limit : public comm_bench::Contender {
 public:
  using Exchange = void (*)(float*, float*, std::int64_t);
  Limit(std::string name, const SharedPair& pair, Exchange exchange)
      : Contender(std::move(name)), pair_(&pair), exchange_(exchange) {}

  void run(const Collective& c) override {
    const auto [first, count] = half_of(pair_->rank(), c.out.count.value);
    exchange_(static_cast<float*>(pair_->own()) + first, static_cast<float*>(pair_->peer()) + first, count);
  }
  void close() override {}

 private:
  const SharedPair* pair_;
  Exchange exchange_;
};

/// Checks that the whole buffer holds the other rank's input.
class Exchanged : public comm_bench::Exercise {
 public:
  Exchanged(const Shape& shape, void* memory)
      : Exercise(shape, memory),
        result_{memory, shape.part, shape.dtype},
        other_(1 - shape.me.value),
        pattern_(shape.dtype, shape.ranks) {}

  [[nodiscard]] std::int64_t wrong(std::int64_t repetition) override {
    MPI_Barrier(MPI_COMM_WORLD);  // the operation returns without waiting when this rank's half is written
    pattern_.set_input(other_, repetition);
    const std::int64_t wrong = pattern_.differences(result_, 0);
    MPI_Barrier(MPI_COMM_WORLD);  // a rank that continues writes into the other's buffer
    return wrong;
  }

 private:
  ConstBuffer result_;
  int other_;
  comm_bench::Pattern pattern_;
};

class LimitPeer : public Peer {
 public:
  [[nodiscard]] std::string title() const override { return "memory limit"; }
  void* allocate(Bytes bytes) override { return pair_.emplace(bytes).own(); }
  comm_bench::Contenders contenders() override {
    comm_bench::Contenders all;
    all.push_back(std::make_unique<Limit>("cached", *pair_, exchange<Stores::cached>));
    all.push_back(std::make_unique<Limit>("streaming", *pair_, exchange<Stores::streaming>));
    return all;
  }
  std::unique_ptr<comm_bench::Exercise> exercise(const comm_bench::Exercise::Shape& shape, void* memory) override {
    return std::make_unique<Exchanged>(shape, memory);
  }

 private:
  std::optional<SharedPair> pair_;
};

}  // namespace
}  // namespace lockstep::peers

int main(int argc, char** argv) {
  return lockstep::peers::run_peer(argc, argv, [] { return std::make_unique<lockstep::peers::LimitPeer>(); });
}
