// SPDX-License-Identifier: Apache-2.0
// A model of hand-written CUDA kernels, and its step as a graph: mpirun -np 4 cuda_step [--eager] [STEPS]
// On 1, 2 and 4 ranks, with a GPU each, it finds the same weights, to the last bit: a step's samples are 4 shards
// however many ranks there are, a rank adds the gradients of its shards in pairs, and tree order goes on in pairs over
// the ranks.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <lockstep/lockstep.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int inputs = 8;
constexpr int hidden = 16;
constexpr int shards = 4;    // of a step, over all ranks
constexpr int samples = 64;  // of a shard: one for each thread of a block
constexpr int threads = 128;
constexpr float rate = 0.2F;

/// Where parameters lie in values and gradients. The last is none, but the loss, which is added up with the gradients.
struct Places {
  int w1, b1, w2, b2, loss, count;
};

/// As good as random, and the same everywhere: in [−1, 1).
__host__ __device__ float uniform(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return static_cast<float>((x ^ (x >> 16)) >> 8) / 8388608.0F - 1.0F;
}

/// The sum over a block's threads, always in the same order. Thread 0 writes it.
__device__ void add_up(float mine, float* partial, float* sum) {
  partial[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = samples / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *sum = partial[0];
}

/// Forward and backward of a perceptron with one hidden layer, which learns the larger one of two inputs. A block for
/// each shard, whose gradients it leaves in `gradients + blockIdx.x * count`.
__global__ void backward(const float* values, float* gradients, const int* step, int first_shard, Places at) {
  __shared__ float partial[samples];
  const unsigned shard = static_cast<unsigned>(*step * shards + first_shard) + blockIdx.x;
  const unsigned sample = shard * samples + threadIdx.x;
  float x[inputs];
  for (unsigned j = 0; j < inputs; ++j) x[j] = uniform(sample * inputs + j);
  float h[hidden];
  float error = values[at.b2] - (x[0] > x[1] ? x[0] : x[1]);
  for (int k = 0; k < hidden; ++k) {
    float sum = values[at.b1 + k];
    for (int j = 0; j < inputs; ++j) sum += values[at.w1 + k * inputs + j] * x[j];
    h[k] = sum > 0 ? sum : 0;
    error += values[at.w2 + k] * h[k];
  }
  float* mine = gradients + blockIdx.x * static_cast<unsigned>(at.count);
  add_up(error * error / 2, partial, mine + at.loss);
  add_up(error, partial, mine + at.b2);
  for (int k = 0; k < hidden; ++k) {
    const float back = h[k] > 0 ? error * values[at.w2 + k] : 0;
    add_up(error * h[k], partial, mine + at.w2 + k);
    add_up(back, partial, mine + at.b1 + k);
    for (int j = 0; j < inputs; ++j) add_up(back * x[j], partial, mine + at.w1 + k * inputs + j);
  }
}

/// sum[i] = the sum over this rank's shards, in pairs. @pre their number is a power of two
__global__ void add_shards(const float* gradients, int stride, int shards_here, float* sum, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  float of_shard[shards];
  for (int s = 0; s < shards_here; ++s) of_shard[s] = gradients[s * stride + i];
  for (int apart = 1; apart < shards_here; apart *= 2)
    for (int s = 0; s + apart < shards_here; s += 2 * apart) of_shard[s] += of_shard[s + apart];
  sum[i] = of_shard[0];
}

/// One thread counts the steps, on the GPU: a graph is the same each time it is launched.
__global__ void update(float* values, const float* sums, int* step, Places at) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < at.loss) values[i] -= rate * sums[i] / (shards * samples);
  if (i == at.loss) values[i] = sums[i] / (shards * samples);
  if (i == 0) ++*step;
}

unsigned blocks_for(int elements) { return static_cast<unsigned>((elements + threads - 1) / threads); }

void check(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

/// Memory of the GPU, zeroed.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(int count, cudaStream_t stream) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    check(cudaMalloc(&data_, bytes));
    check(cudaMemsetAsync(data_, 0, bytes, stream));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

/// The host's memory, to and from which copies go while the host does something else.
class PinnedArray {
 public:
  explicit PinnedArray(int count) { check(cudaMallocHost(&data_, static_cast<std::size_t>(count) * sizeof(float))); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { cudaFreeHost(data_); }
  [[nodiscard]] float* data() const { return static_cast<float*>(data_); }

 private:
  void* data_ = nullptr;
};

class Training {
 public:
  Training(lockstep::ProcessGroup& group, cudaStream_t stream)
      : group_(group),
        stream_(stream),
        parallel_(group, layout(), lockstep::DType::float32, {.bucket = {256}}),
        at_(places(parallel_.layout())),
        shards_here_(shards / group.size()),
        gradients_(shards_here_ * at_.count, stream),
        step_(1, stream),
        on_host_(at_.count) {
    if (group.rank().value == 0) draw_values();
    parallel_.synchronize();  // all begin with the first rank's values
  }

  /// The host does nothing but queue; so it may be captured.
  void step() {
    const lockstep::Queue queue = lockstep::Queue::stream(stream_);
    const int first = group_.rank().value * shards_here_;
    backward<<<static_cast<unsigned>(shards_here_), samples, 0, stream_>>>(values(), gradients_.data(), step_.data(),
                                                                           first, at_);
    for (int parameter = static_cast<int>(parallel_.layout().tensors().size()) - 1; parameter >= 0; --parameter) {
      const int offset = static_cast<int>(parallel_.layout().at(parameter).offset.value);
      const int count = static_cast<int>(parallel_.layout().at(parameter).count.value);
      add_shards<<<blocks_for(count), threads, 0, stream_>>>(gradients_.data() + offset, at_.count, shards_here_,
                                                             sums() + offset, count);
      parallel_.ready(parameter, queue);
    }
    parallel_.finish_on(queue);
    update<<<blocks_for(at_.count), threads, 0, stream_>>>(values(), sums(), step_.data(), at_);
    check(cudaGetLastError());
  }

  /// Until the stream is done. Looks after the group meanwhile: so it hears of it when another rank has failed.
  void wait() {
    cudaError_t state = cudaErrorNotReady;
    while ((state = cudaStreamQuery(stream_)) == cudaErrorNotReady) {
      group_.progress().poll();
      std::this_thread::yield();
    }
    cudaGetLastError();  // where "not ready" may have been taken for an error
    check(state);
  }

  /// The weights, and the loss of the last step behind them.
  [[nodiscard]] std::vector<float> result() {
    check(cudaMemcpyAsync(on_host_.data(), values(), bytes(), cudaMemcpyDeviceToHost, stream_));
    wait();
    return {on_host_.data(), on_host_.data() + at_.loss + 1};
  }

 private:
  void draw_values() {
    float* const initial = on_host_.data();
    std::fill_n(initial, at_.count, 0.0F);
    for (int i = at_.w1; i < at_.b1; ++i) initial[i] = 0.5F * uniform(1000000U + i);
    for (int i = at_.w2; i < at_.w2 + hidden; ++i) initial[i] = 0.5F * uniform(2000000U + i);
    check(cudaMemcpyAsync(values(), initial, bytes(), cudaMemcpyHostToDevice, stream_));
    wait();
  }
  static lockstep::Layout layout() {
    lockstep::Layout layout;
    layout.add("w1", {hidden, inputs});
    layout.add("b1", {hidden});
    layout.add("w2", {hidden});
    layout.add("b2", {1});
    layout.add("loss", {1});
    return layout;
  }
  static Places places(const lockstep::Layout& layout) {
    const auto at = [&](const char* name) { return static_cast<int>(layout.find(name).offset.value); };
    return {at("w1"), at("b1"), at("w2"), at("b2"), at("loss"), static_cast<int>(layout.count().value)};
  }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(at_.count) * sizeof(float); }
  [[nodiscard]] float* values() const { return static_cast<float*>(parallel_.values().data); }
  [[nodiscard]] float* sums() const { return static_cast<float*>(parallel_.gradients().data); }

  lockstep::ProcessGroup& group_;
  cudaStream_t stream_;
  lockstep::DataParallel parallel_;
  Places at_;
  int shards_here_;
  DeviceArray<float> gradients_;  // of this rank's shards
  DeviceArray<int> step_;
  PinnedArray on_host_;  // the weights on their way
};

/// Captures one step, and runs it so many times.
void replay(Training& training, cudaStream_t stream, int times) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  training.step();
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < times; ++i) check(cudaGraphLaunch(executable, stream));
  check(cudaGraphExecDestroy(executable));  // before the group is closed; the steps that are queued go on
  check(cudaGraphDestroy(graph));
}

std::uint64_t hash(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(float); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3U;
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  const bool eager = argc > 1 && std::string_view(argv[1]) == "--eager";
  const int steps = argc > (eager ? 2 : 1) ? std::atoi(argv[eager ? 2 : 1]) : 100;
  lockstep::World world;
  lockstep::ProcessGroup group(world, {.device = lockstep::Device::cuda, .algorithm = "tree-order"});
  if (shards % group.size() != 0) throw std::runtime_error("this example is for 1, 2 or 4 ranks");
  check(cudaSetDevice(group.gpu().value()));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    Training training(group, stream);
    training.step();  // also where the rest is a graph: NCCL makes its connections in the first operation
    training.wait();
    if (eager) {
      for (int i = 1; i < steps; ++i) training.step();
    } else {
      replay(training, stream, steps - 1);
    }
    const std::vector<float> result = training.result();
    std::printf("rank %d: %d steps, loss %.9g, weights %016llx\n", group.rank().value, steps,
                static_cast<double>(result.back()), static_cast<unsigned long long>(hash(result)));
  }
  check(cudaStreamDestroy(stream));
  group.close();
  world.close();
}
