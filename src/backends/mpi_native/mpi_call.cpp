// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi_native/mpi_call.hpp"

#include "kernels/reduce.hpp"

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
    default: return nullptr;
  }
}

MPI_Op of_the_library(ReduceOp op) {
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::sum: return MPI_SUM;
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::product: return MPI_PROD;
    case ReduceOp::logical_and: return MPI_LAND;
    case ReduceOp::logical_or: return MPI_LOR;
    case ReduceOp::logical_xor: return MPI_LXOR;
    case ReduceOp::bit_and: return MPI_BAND;
    case ReduceOp::bit_or: return MPI_BOR;
    case ReduceOp::bit_xor: return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

/// MPI has no other operators than logical ones for its type of booleans.
MPI_Op of_booleans(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::product:
    case ReduceOp::bit_and:
    case ReduceOp::logical_and: return MPI_LAND;
    case ReduceOp::bit_xor:
    case ReduceOp::logical_xor: return MPI_LXOR;
    default: return MPI_LOR;
  }
}

/// The type and count of one rank's piece in a buffer of all ranks' parts. If the piece is not the whole part, this is
/// a type with the extent of a part, because a rank's piece is a part behind that of the previous rank. MPI keeps the
/// type until the operations that use it are done.
class PieceType {
 public:
  PieceType(int count, std::int64_t part, DType dtype) : count_(count), type_(mpi_type(dtype)) {
    if (count == part) return;
    MPI_Datatype contiguous = MPI_DATATYPE_NULL;
    LOCKSTEP_MPI(MPI_Type_contiguous(count, mpi_type(dtype), &contiguous));
    LOCKSTEP_MPI(MPI_Type_create_resized(contiguous, 0, part * size_of(dtype), &type_));
    LOCKSTEP_MPI(MPI_Type_commit(&type_));
    LOCKSTEP_MPI(MPI_Type_free(&contiguous));
    count_ = 1;
    is_made_ = true;
  }
  PieceType(const PieceType&) = delete;
  PieceType& operator=(const PieceType&) = delete;
  ~PieceType() {
    if (is_made_) MPI_Type_free(&type_);
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_;
  bool is_made_ = false;
};

}  // namespace

MPI_Op MpiOperators::get(DType dtype, ReduceOp op) {
  if (dtype == DType::boolean) return of_booleans(op);
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

/// Other ranks than the root have no output of a reduce or gather, and no input of a scatter.
void MpiCall::make(const Piece& piece) const {
  const Collective& c = collective_;
  const bool is_root = me_ == c.root;
  const bool has_in = c.kind != CollectiveKind::scatter || is_root;
  const bool has_out = (c.kind != CollectiveKind::reduce && c.kind != CollectiveKind::gather) || is_root;
  const ConstBuffer in = has_in ? slice(c.in, {piece.offset}, {0}) : ConstBuffer{};
  const Buffer out = has_out ? slice(c.out, {piece.offset}, {0}) : Buffer{};
  const auto is_own_part = [&](const ConstBuffer& part, const ConstBuffer& whole) {
    return part.data == slice(whole, {part_ * me_.value}, {0}).data;
  };
  const int n = piece.count;
  const int root = c.root.value;
  const bool may_be_in_place = is_root || c.kind == CollectiveKind::all_reduce || is_scan(c.kind);
  const void* const in_or_place = may_be_in_place && in.data == out.data ? MPI_IN_PLACE : in.data;
  const bool has_parts = c.kind != CollectiveKind::broadcast && !is_reduction(c.kind);
  const PieceType each(n, has_parts ? part_ : n, c.out.dtype);
  switch (c.kind) {
    case CollectiveKind::broadcast: return call("MPI_Bcast", MPI_Bcast, MPI_Ibcast, out.data, n, type(), root);
    case CollectiveKind::all_reduce:
      return call("MPI_Allreduce", MPI_Allreduce, MPI_Iallreduce, in_or_place, out.data, n, type(), op());
    case CollectiveKind::reduce:
      return call("MPI_Reduce", MPI_Reduce, MPI_Ireduce, in_or_place, out.data, n, type(), op(), root);
    case CollectiveKind::scan: return call("MPI_Scan", MPI_Scan, MPI_Iscan, in_or_place, out.data, n, type(), op());
    case CollectiveKind::exclusive_scan:
      return call("MPI_Exscan", MPI_Exscan, MPI_Iexscan, in_or_place, out.data, n, type(), op());
    case CollectiveKind::all_gather:
      return call("MPI_Allgather", MPI_Allgather, MPI_Iallgather, is_own_part(in, out) ? MPI_IN_PLACE : in.data, n,
                  type(), out.data, each.count(), each.type());
    case CollectiveKind::gather:
      return call("MPI_Gather", MPI_Gather, MPI_Igather, is_root && is_own_part(in, out) ? MPI_IN_PLACE : in.data, n,
                  type(), out.data, each.count(), each.type(), root);
    case CollectiveKind::scatter:
      return call("MPI_Scatter", MPI_Scatter, MPI_Iscatter, in.data, each.count(), each.type(),
                  is_root && is_own_part(out, in) ? MPI_IN_PLACE : out.data, n, type(), root);
    case CollectiveKind::all_to_all:
      return call("MPI_Alltoall", MPI_Alltoall, MPI_Ialltoall, in.data, each.count(), each.type(), out.data,
                  each.count(), each.type());
    default: return;
  }
}

}  // namespace lockstep::backends
