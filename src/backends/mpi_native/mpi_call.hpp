// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>

#include "comm/collective_parts.hpp"
#include "kernels/reduce.hpp"
#include "lockstep/comm/collective.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep::backends {

/// Returns the MPI type. MPI has no 16-bit floating-point types: they are sent as integers of that width, and
/// `MpiOperators` adds them.
inline MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
    case DType::uint8: return MPI_UINT8_T;
    case DType::float16:
    case DType::bfloat16:
    case DType::uint16: return MPI_UINT16_T;
    case DType::int8: return MPI_INT8_T;
    case DType::int16: return MPI_INT16_T;
    case DType::boolean: return MPI_C_BOOL;
    case DType::complex64: return MPI_C_FLOAT_COMPLEX;
    case DType::complex128: return MPI_C_DOUBLE_COMPLEX;
  }
  return MPI_DATATYPE_NULL;
}

/// Fills rank 0's result of an exclusive scan, which MPI leaves undefined; nothing else.
inline void fill_first(const Collective& c, Rank me) {
  if (c.kind == CollectiveKind::exclusive_scan && me == 0)
    kernels::fill_neutral(c.out.data, c.out.count, c.out.dtype, c.op);
}

/// The reduction operators: MPI's own, and lockstep's kernels for float16 and bfloat16, which are created on first use.
class MpiOperators {
 public:
  MpiOperators() = default;
  MpiOperators(const MpiOperators&) = delete;
  MpiOperators& operator=(const MpiOperators&) = delete;
  ~MpiOperators() = default;

  /// @throws Error{transport}
  [[nodiscard]] MPI_Op get(DType dtype, ReduceOp op);
  /// Frees the operators that were created; no operation may be in flight. Without this call they exist until MPI ends.
  /// @throws Error{transport}
  void close();

 private:
  static constexpr int formats = 2;
  static constexpr int ops = 4;
  MPI_Op made_[formats][ops] = {{MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL},
                                {MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL}};
};

/// One call of the MPI library for a collective, or for a piece of it: the blocking function if there is no request,
/// otherwise the nonblocking one. Buffers are as in `Communicator`. @throws Error{transport}
class MpiCall {
 public:
  /// A piece: elements `offset` … `offset + count` of every rank's part.
  struct Piece {
    std::int64_t offset;
    int count;
  };

  /// @param operators  outlive the operation, as the collective does
  MpiCall(MPI_Comm communicator, Rank me, int ranks, const Collective& collective, MpiOperators& operators,
          MPI_Request* request = nullptr)
      : communicator_(communicator),
        me_(me),
        collective_(collective),
        operators_(operators),
        request_(request),
        part_(part_of(collective, ranks).value) {}

  /// Makes the call of a collective with equal parts. A reduce_scatter is none of them.
  void make(const Piece& piece) const;
  /// @param in   the piece of each rank, one after another
  /// @param out  separate from the input, because in place means something else to MPI
  void reduce_scatter(const void* in, void* out, int count) const {
    call("MPI_Reduce_scatter_block", MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, in, out, count, type(), op());
  }
  void barrier() const { call("MPI_Barrier", MPI_Barrier, MPI_Ibarrier); }
  /// @param lengths  of each rank's part, as `offsets` valid until the operation has ended
  /// @param in       of this rank; MPI_IN_PLACE if it is in place already
  void all_gather_v(const void* in, std::span<const int> lengths, std::span<const int> offsets) const {
    call("MPI_Allgatherv", MPI_Allgatherv, MPI_Iallgatherv, in, static_cast<int>(collective_.in.count.value), type(),
         collective_.out.data, lengths.data(), offsets.data(), type());
  }
  void reduce_scatter_v(void* out, std::span<const int> lengths) const {
    call("MPI_Reduce_scatter", MPI_Reduce_scatter, MPI_Ireduce_scatter, collective_.in.data, out, lengths.data(),
         type(), op());
  }

 private:
  template <typename Blocking, typename Nonblocking, typename... Arguments>
  void call(const char* name, Blocking blocking, Nonblocking nonblocking, Arguments... arguments) const {
    const int code = request_ == nullptr ? blocking(arguments..., communicator_)
                                         : nonblocking(arguments..., communicator_, request_);
    if (code != MPI_SUCCESS) throw_mpi_error(code, name);
  }
  [[nodiscard]] MPI_Datatype type() const { return mpi_type(collective_.out.dtype); }
  [[nodiscard]] MPI_Op op() const { return operators_.get(collective_.out.dtype, collective_.op); }

  MPI_Comm communicator_;
  Rank me_;
  const Collective& collective_;
  MpiOperators& operators_;
  MPI_Request* request_;
  std::int64_t part_;  // elements
};

}  // namespace lockstep::backends
