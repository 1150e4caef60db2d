// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "lockstep/base/buffer.hpp"

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
    case DType::bfloat16: return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
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

}  // namespace lockstep::backends
