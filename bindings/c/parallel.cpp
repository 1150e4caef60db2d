// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/handles.hpp"

namespace lockstep::bindings {
namespace {

std::vector<Parameter> parameters_of(const lockstep_parameter* given, int count, DType dtype, MemoryKind kind) {
  if (count < 0) refuse("the number of parameters is " + std::to_string(count));
  if (count > 0) require(given, "parameters");
  std::vector<Parameter> all;
  const auto* at = reinterpret_cast<const std::byte*>(given);
  for (int i = 0; i < count; ++i) {
    const auto* const parameter = reinterpret_cast<const lockstep_parameter*>(at);
    const lockstep_parameter known = read(parameter, "lockstep_parameter");
    const Count elements{known.count};
    all.push_back({.name = text_of(known.name),
                   .value = {known.value, elements, dtype, kind},
                   .gradient = known.gradient == nullptr ? Buffer() : Buffer{known.gradient, elements, dtype, kind}});
    at += parameter->size;
  }
  return all;
}

/// @throws Error{invalid_argument} for an index that no parameter has
int checked(const lockstep_parallel& handle, int parameter) {
  const auto number = static_cast<int>(handle.parallel.layout().tensors().size());
  if (parameter < 0 || parameter >= number)
    refuse("the parameter " + std::to_string(parameter) + " is none of the " + std::to_string(number) +
           ", which count from 0");
  return parameter;
}

GroupState* state_of(const lockstep_parallel* handle) { return handle == nullptr ? nullptr : handle->group.get(); }

}  // namespace
}  // namespace lockstep::bindings

using namespace lockstep;
using namespace lockstep::bindings;

int lockstep_parallel_create(lockstep_group* group, int dtype, const lockstep_parameter* parameters, int count,
                             const lockstep_parallel_options* options, lockstep_parallel** parallel) {
  return guarded(group == nullptr ? nullptr : group->state.get(), [&] {
    require(group, "group");
    require(parallel, "parallel");
    const lockstep_parallel_options known = read(options, "lockstep_parallel_options");
    DataParallelOptions wanted;
    if (known.bucket_bytes != 0) wanted.bucket = {known.bucket_bytes};
    wanted.initial = known.compare_initial_values != 0 ? InitialValues::compare : InitialValues::broadcast;
    wanted.check_finite = known.check_finite != 0;
    wanted.allow_unused = known.allow_unused != 0;
    if (known.compare_every != 0) wanted.compare_every = known.compare_every == -1 ? 0 : known.compare_every;
    std::vector<Parameter> all = parameters_of(parameters, count, static_cast<DType>(dtype), memory_kind(known.memory));
    const auto turn = group->state->group->take_turn();
    *parallel =
        new lockstep_parallel{group->state, DataParallel(*group->state->group, std::move(all), wanted), nullptr, {}};
  });
}

int lockstep_parallel_ready(lockstep_parallel* parallel, int parameter, void* gradient) {
  return guarded(state_of(parallel), [&] {
    require(parallel, "parallel");
    const int index = checked(*parallel, parameter);
    if (gradient == nullptr) return parallel->parallel.ready(index);
    Buffer moved = parallel->parallel.gradient(index);
    moved.data = gradient;
    parallel->parallel.ready(index, moved);
  });
}

int lockstep_parallel_progress(lockstep_parallel* parallel) {
  return guarded(state_of(parallel), [&] {
    require(parallel, "parallel");
    parallel->parallel.progress();
  });
}

int lockstep_parallel_finish(lockstep_parallel* parallel, double weight, double* numbers, int number_count,
                             lockstep_step* step) {
  return guarded(state_of(parallel), [&] {
    require(parallel, "parallel");
    if (number_count < 0) refuse("the number of numbers is " + std::to_string(number_count));
    if (number_count > 0) require(numbers, "numbers");
    parallel->last = parallel->parallel.finish(weight, {numbers, static_cast<std::size_t>(number_count)});
    if (step == nullptr) return;
    const DataParallel::Step& last = parallel->last;
    lockstep_step result{.weight = last.weight,
                         .unused = last.unused.data(),
                         .unused_count = static_cast<int>(last.unused.size()),
                         .not_finite_rank = -1};
    if (!last.not_finite.empty()) {
      result.not_finite = last.not_finite.front().parameters.data();
      result.not_finite_count = static_cast<int>(last.not_finite.front().parameters.size());
      result.not_finite_rank = last.not_finite.front().rank.value_or(-1);
    }
    write(step, result, "lockstep_step");
  });
}

int lockstep_parallel_no_sync(lockstep_parallel* parallel, int on) {
  return guarded(state_of(parallel), [&] {
    require(parallel, "parallel");
    if (on == 0) return parallel->no_sync.reset();
    if (parallel->no_sync == nullptr) parallel->no_sync.reset(new DataParallel::NoSync(parallel->parallel.no_sync()));
  });
}

int lockstep_parallel_synchronize(lockstep_parallel* parallel) {
  return guarded(state_of(parallel), [&] {
    require(parallel, "parallel");
    parallel->parallel.synchronize();
  });
}

int lockstep_parallel_gradient(const lockstep_parallel* parallel, int parameter, void** gradient) {
  return guarded(nullptr, [&] {
    require(parallel, "parallel");
    require(gradient, "gradient");
    *gradient = parallel->parallel.gradient(checked(*parallel, parameter)).data;
  });
}

int lockstep_parallel_number_steps_from(lockstep_parallel* parallel, int64_t next) {
  return guarded(nullptr, [&] {
    require(parallel, "parallel");
    parallel->parallel.number_steps_from(next);
  });
}

int lockstep_parallel_statistics(const lockstep_parallel* parallel, double* waited, int* buckets) {
  return guarded(nullptr, [&] {
    require(parallel, "parallel");
    if (waited != nullptr) *waited = parallel->parallel.exposed_seconds();
    if (buckets != nullptr) *buckets = static_cast<int>(parallel->parallel.bucket_sizes().size());
  });
}

int lockstep_parallel_free(lockstep_parallel* parallel) {
  return guarded(nullptr, [&] { const std::unique_ptr<lockstep_parallel> released(parallel); });
}
