// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/handles.hpp"

using namespace lockstep;
using namespace lockstep::bindings;

namespace lockstep::bindings {
namespace {

GroupState* state_of(const lockstep_checkpoint* handle) { return handle == nullptr ? nullptr : handle->group.get(); }

}  // namespace
}  // namespace lockstep::bindings

int lockstep_checkpoint_create(lockstep_group* group, const char* folder, int keep, lockstep_checkpoint** checkpoint) {
  return guarded(group == nullptr ? nullptr : group->state.get(), [&] {
    require(group, "group");
    require(folder, "folder");
    require(checkpoint, "checkpoint");
    const auto turn = group->state->group->take_turn();
    *checkpoint = new lockstep_checkpoint{group->state, Checkpoint(*group->state->group, folder, keep)};
  });
}

int lockstep_checkpoint_add_parallel(lockstep_checkpoint* checkpoint, const lockstep_parallel* parallel) {
  return guarded(nullptr, [&] {
    require(checkpoint, "checkpoint");
    require(parallel, "parallel");
    checkpoint->checkpoint.add(parallel->parallel);
  });
}

int lockstep_checkpoint_add_tensor(lockstep_checkpoint* checkpoint, const char* name, void* data, int64_t count,
                                   int dtype, const int64_t* extents, int dimensions, int in_model) {
  return guarded(nullptr, [&] {
    require(checkpoint, "checkpoint");
    require(name, "name");
    if (dimensions < 0) refuse("the number of dimensions is " + std::to_string(dimensions));
    const Buffer tensor{data, {count}, static_cast<DType>(dtype)};
    std::optional<std::vector<std::int64_t>> shape;
    if (extents != nullptr) shape.emplace(extents, extents + dimensions);
    in_model != 0 ? checkpoint->checkpoint.add_to_model(name, tensor, shape)
                  : checkpoint->checkpoint.add(name, tensor, shape);
  });
}

int lockstep_checkpoint_add_int64(lockstep_checkpoint* checkpoint, const char* name, int64_t* number) {
  return guarded(nullptr, [&] {
    require(checkpoint, "checkpoint");
    require(name, "name");
    require(number, "number");
    checkpoint->checkpoint.add(name, *number);
  });
}

int lockstep_checkpoint_add_double(lockstep_checkpoint* checkpoint, const char* name, double* number) {
  return guarded(nullptr, [&] {
    require(checkpoint, "checkpoint");
    require(name, "name");
    require(number, "number");
    checkpoint->checkpoint.add(name, *number);
  });
}

int lockstep_checkpoint_save(lockstep_checkpoint* checkpoint, int64_t step) {
  return guarded(state_of(checkpoint), [&] {
    require(checkpoint, "checkpoint");
    const auto turn = checkpoint->group->group->take_turn();
    static_cast<void>(checkpoint->checkpoint.save(step));
  });
}

int lockstep_checkpoint_restore(lockstep_checkpoint* checkpoint, const char* which, int64_t* step) {
  return guarded(state_of(checkpoint), [&] {
    require(checkpoint, "checkpoint");
    require(step, "step");
    const auto turn = checkpoint->group->group->take_turn();
    *step = checkpoint->checkpoint.restore(text_of(which, "auto")).value_or(-1);
  });
}

int lockstep_checkpoint_free(lockstep_checkpoint* checkpoint) {
  return guarded(nullptr, [&] { const std::unique_ptr<lockstep_checkpoint> released(checkpoint); });
}
