// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_native/mpi_types.hpp"

#include "kernels/reduce.hpp"
#include "platform/mpi/mpi.hpp"

namespace lockstep::backends {
namespace {

/// The function that MPI calls for in_out[i] = in[i] ⊕ in_out[i].
template <DType dtype, ReduceOp op>
void combine(void* in, void* in_out, int* count, MPI_Datatype* /*type*/) {
  kernels::reduce(in_out, in, in_out, {*count}, dtype, op);
}

template <DType dtype>
MPI_User_function* function_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::sum: return combine<dtype, ReduceOp::sum>;
    case ReduceOp::min: return combine<dtype, ReduceOp::min>;
    case ReduceOp::max: return combine<dtype, ReduceOp::max>;
    case ReduceOp::product: return combine<dtype, ReduceOp::product>;
  }
  return nullptr;
}

MPI_Op of_the_library(ReduceOp op) {
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::sum: return MPI_SUM;
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::product: return MPI_PROD;
  }
  return MPI_OP_NULL;
}

}  // namespace

MPI_Op MpiOperators::get(DType dtype, ReduceOp op) {
  const bool brain = dtype == DType::bfloat16;
  if (!brain && dtype != DType::float16) return of_the_library(op);
  MPI_Op& made = made_[brain ? 1 : 0][static_cast<int>(combining(op))];
  if (made == MPI_OP_NULL) {
    constexpr int commutes = 1;
    LOCKSTEP_MPI(
        MPI_Op_create(brain ? function_of<DType::bfloat16>(op) : function_of<DType::float16>(op), commutes, &made));
  }
  return made;
}

void MpiOperators::close() {
  for (auto& format : made_) {
    for (MPI_Op& op : format) {
      if (op != MPI_OP_NULL) LOCKSTEP_MPI(MPI_Op_free(&op));
    }
  }
}

}  // namespace lockstep::backends
