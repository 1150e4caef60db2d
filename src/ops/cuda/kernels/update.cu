// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/launch.cuh"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/step_stages.hpp"
#include "ops/formulas/update_rules.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The arrays and numbers of an update.
struct Update : UpdateFactors<float> {
  float* weights;
  float* first;
  float* second;
  const float* gradients;

  explicit __device__ Update(const UpdateStep& step)
      : UpdateFactors(step),
        weights(static_cast<float*>(step.parameters)),
        first(static_cast<float*>(step.first)),
        second(static_cast<float*>(step.second)),
        gradients(static_cast<const float*>(step.gradients)) {}

  /// Overwrites both moments of an element. @return its direction
  __device__ float moments(std::int64_t i) const { return UpdateFactors::moments(gradients[i], first[i], second[i]); }
  __device__ float direction(std::int64_t i) const { return UpdateFactors::direction(first[i], second[i]); }
};

__device__ void sgd(const Update& u, bool nesterov, std::int64_t i) {
  const float g = u.gradients[i] * u.scale + u.decay * u.weights[i];
  const float v = normal_or_zero(u.momentum * u.first[i] + g);
  u.first[i] = v;
  u.weights[i] -= u.rate * (nesterov ? g + u.momentum * v : v);
}

__device__ void lars(const Update& u, float trust, std::int64_t i) {
  const float g = u.gradients[i] * u.scale + u.decay * u.weights[i];
  const float v = normal_or_zero(u.momentum * u.first[i] + u.rate * trust * g);
  u.first[i] = v;
  u.weights[i] -= v;
}

__device__ void adamw(const Update& u, std::int64_t i) {
  u.weights[i] = (1 - u.rate * u.decay) * u.weights[i] - u.rate * u.moments(i);
}

/// The second half of the update, after `measure_update`.
__device__ void lamb(const Update& u, float trust, std::int64_t i) {
  u.weights[i] -= u.rate * trust * (u.direction(i) + u.decay * u.weights[i]);
}

/// The ends of the tensors of one launch, whose arguments have at most 4 KiB.
constexpr std::size_t tensors_of_check = 256;
struct TensorEnds {
  std::int64_t of[tensors_of_check];
};

void require_float32(DType dtype, const char* what) {
  if (dtype == DType::float32) return;
  throw Error(ErrorCode::unsupported,
              std::string(what) + " of " + std::string(name(dtype)) + " values on a GPU; use float32");
}

__device__ double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }

/// Updates of one launch, whose arguments have at most 4 KiB: a network has hundreds of tensors, and most are so small
/// that a launch for each would take longer than the update.
struct UpdateBatch {
  static constexpr int most = 20;

  UpdateStep steps[most];
  std::int64_t ends[most];  // of each step's blocks among all blocks
  int count = 0;

  [[nodiscard]] std::int64_t blocks() const { return count == 0 ? 0 : ends[count - 1]; }
  void add(const UpdateStep& step, std::int64_t blocks_of_step) {
    const std::int64_t before = blocks();
    steps[count] = step;
    ends[count] = before + blocks_of_step;
    ++count;
  }
  /// Whether the squares of the step and of an earlier one go to the same sums, to which they are added in order.
  [[nodiscard]] bool has_sums_of(const UpdateStep& step) const {
    return step.squares != nullptr &&
           std::any_of(steps, steps + count, [&](const UpdateStep& other) { return other.squares == step.squares; });
  }
};
static_assert(sizeof(UpdateBatch) <= 4000);

/// The work of a block.
struct UpdateBlock {
  int step = 0;
  std::int64_t index;   ///< among the blocks of the step
  std::int64_t blocks;  ///< of the step

  __device__ UpdateBlock(const UpdateBatch& batch, std::int64_t block) {
    while (block >= batch.ends[step]) ++step;
    const std::int64_t begin = step == 0 ? 0 : batch.ends[step - 1];
    index = block - begin;
    blocks = batch.ends[step] - begin;
  }
};

/// Calls submit(batch) for all steps.
template <typename BlocksOf, typename Submit>
void for_each_batch(std::span<const UpdateStep> steps, const BlocksOf& blocks_of, const Submit& submit) {
  UpdateBatch batch;
  const auto end = [&] {
    if (batch.count == 0) return;
    static_cast<void>(cudaGetLastError());
    submit(batch);
    check_launch();
    batch.count = 0;
  };
  for (const UpdateStep& step : steps) {
    require_float32(step.dtype, "an update");
    if (step.count.value == 0) continue;
    if (batch.count == UpdateBatch::most || batch.has_sums_of(step)) end();
    batch.add(step, blocks_of(step));
  }
  end();
}

__global__ void __launch_bounds__(threads_per_block) update_batch(UpdateBatch batch) {
  const UpdateBlock block(batch, blockIdx.x);
  const UpdateStep& step = batch.steps[block.step];
  if (!step.scalars->go) return;
  const Update u(step);
  const auto trust = static_cast<float>(trust_ratio(step));
  const std::int64_t stride = block.blocks * blockDim.x;
  for (std::int64_t i = block.index * blockDim.x + threadIdx.x; i < step.count.value; i += stride) {
    switch (step.rule) {
      case UpdateRule::sgd: sgd(u, step.nesterov, i); break;
      case UpdateRule::lars: lars(u, trust, i); break;
      case UpdateRule::adamw: adamw(u, i); break;
      case UpdateRule::lamb: lamb(u, trust, i); break;
    }
  }
}

/// The squares of the weights, and of the gradients or of what LAMB changes the weights by before it is scaled.
struct TwoSquares {
  double weights = 0;
  double others = 0;
  __device__ TwoSquares operator+(const TwoSquares& more) const {
    return {weights + more.weights, others + more.others};
  }
};

/// Sums the squares of a part of a tensor, in the order of `sum_rows`. For LAMB it overwrites the moments.
__global__ void __launch_bounds__(threads_per_block) measure_batch(UpdateBatch batch, TwoSquares* partials) {
  const UpdateBlock block(batch, blockIdx.x);
  const UpdateStep& step = batch.steps[block.step];
  const std::int64_t end = step.count.value * (block.index + 1) / block.blocks;
  TwoSquares sum;
  if (step.scalars->go) {
    const Update u(step);
    for (std::int64_t i = step.count.value * block.index / block.blocks + threadIdx.x; i < end;
         i += threads_per_block) {
      const float other = step.rule == UpdateRule::lamb ? u.moments(i) + u.decay * u.weights[i] : u.gradients[i];
      sum = sum + TwoSquares{square(u.weights[i]), square(other)};
    }
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// Adds up the parts of each tensor, of which a block has one, in the order of `sum_parts`.
__global__ void __launch_bounds__(threads_per_block) sum_batch(UpdateBatch batch, const TwoSquares* partials) {
  const UpdateStep& step = batch.steps[blockIdx.x];
  if (step.squares == nullptr || !step.scalars->go) return;
  const std::int64_t begin = blockIdx.x == 0 ? 0 : batch.ends[blockIdx.x - 1];
  const std::int64_t end = batch.ends[blockIdx.x];
  TwoSquares sum;
  if (end - begin <= few_parts) {
    if (threadIdx.x != 0) return;
    sum = partials[begin];
    for (std::int64_t part = begin + 1; part < end; ++part) sum = sum + partials[part];
  } else {
    for (std::int64_t part = begin + threadIdx.x; part < end; part += threads_per_block) sum = sum + partials[part];
    sum = sum_of_block(sum);
    if (threadIdx.x != 0) return;
  }
  step.squares[0] += sum.weights;
  step.squares[1] += sum.others;
}

}  // namespace

void update(std::span<const UpdateStep> steps) {
  const auto blocks_of = [](const UpdateStep& step) {
    constexpr std::int64_t most_blocks = 2048;  // they fill any GPU
    return std::min((step.count.value + threads_per_block - 1) / threads_per_block, most_blocks);
  };
  for_each_batch(steps, blocks_of, [](const UpdateBatch& batch) {
    const cudaStream_t stream = cuda_stream(batch.steps[0].queue);
    update_batch<<<static_cast<unsigned>(batch.blocks()), threads_per_block, 0, stream>>>(batch);
  });
}

void measure_update(std::span<const UpdateStep> steps, void* workspace) {
  const auto blocks_of = [](const UpdateStep& step) { return RowParts(step.count.value, 1).parts; };
  auto* const partials = static_cast<TwoSquares*>(workspace);
  for_each_batch(steps, blocks_of, [&](const UpdateBatch& batch) {
    const cudaStream_t stream = cuda_stream(batch.steps[0].queue);
    measure_batch<<<static_cast<unsigned>(batch.blocks()), threads_per_block, 0, stream>>>(batch, partials);
    check_launch();
    sum_batch<<<static_cast<unsigned>(batch.count), threads_per_block, 0, stream>>>(batch, partials);
  });
}

void average(const AverageStep& step) {
  require_float32(step.dtype, "averages");
  auto* averages = static_cast<float*>(step.averages);
  const auto* values = static_cast<const float*>(step.values);
  const AverageScalars* scalars = step.scalars;
  for_each(
      step.count.value,
      [=] __device__(std::int64_t i) {
        if (!scalars->go) return;
        const auto keep = static_cast<float>(scalars->keep);
        const auto take = static_cast<float>(scalars->take);
        if (keep == 0 || take == 0) {
          averages[i] = (keep == 0 ? 0 : keep * averages[i]) + (take == 0 ? 0 : take * values[i]);
        } else {
          averages[i] = keep * averages[i] + take * values[i];
        }
      },
      step.queue);
}

void add_squares(const ConstBuffer& values, double* sum, void* workspace, Queue queue) {
  require_float32(values.dtype, "squares");
  const auto* data = static_cast<const float*>(values.data);
  sum_rows<double>(
      values.count.value, 1, [=] __device__(std::int64_t i, std::int64_t /*column*/) { return square(data[i]); },
      [=] __device__(std::int64_t /*column*/, double total) { *sum += total; }, workspace, queue);
}

void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts, Queue queue) {
  require_float32(values.dtype, "a check");
  std::int64_t begin = 0;
  for (std::size_t first = 0; first < ends.size(); first += tensors_of_check) {
    TensorEnds of_launch{};
    const std::span<const std::int64_t> part =
        ends.subspan(first).first(std::min(ends.size() - first, tensors_of_check));
    std::transform(part.begin(), part.end(), of_launch.of, [&](std::int64_t end) { return end - begin; });
    const auto* data = static_cast<const float*>(values.data) + begin;
    auto* bits = reinterpret_cast<unsigned long long*>(counts + first);
    for_each(
        part.back() - begin,
        [=] __device__(std::int64_t i) {
          if (std::isfinite(data[i])) return;
          int tensor = 0;
          while (i >= of_launch.of[tensor]) ++tensor;
          atomicExch(bits + tensor, kernels::cuda::bits_as<unsigned long long>(1.0));
        },
        queue);
    begin = part.back();
  }
}

void compute_scalars(StepStage stage, const StepBlock& block, Queue queue) {
  for_each(
      1, [=] __device__(std::int64_t /*i*/) { compute(stage, block); }, queue);
}

Bytes sums_workspace() {
  constexpr std::int64_t many = std::int64_t{1} << 62;
  return {RowParts(many, 1).partials() * UpdateBatch::most * static_cast<std::int64_t>(sizeof(TwoSquares))};
}

}  // namespace lockstep::ops::cuda
