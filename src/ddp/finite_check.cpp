// SPDX-License-Identifier: Apache-2.0
#include "ddp/finite_check.hpp"

#include <algorithm>

#include "ddp/rank_zero.hpp"
#include "kernels/finite.hpp"

namespace lockstep::ddp {
namespace {

/// Selects the GPU: the program may have selected another one meanwhile, or call from another thread.
int selected(int gpu) {
  select_gpu(gpu);
  return gpu;
}

Bytes bytes_of_marks(std::size_t parameters) { return {static_cast<std::int64_t>(parameters * sizeof(std::uint32_t))}; }

}  // namespace

GpuFiniteCheck::GpuFiniteCheck(std::size_t parameters, int gpu)
    : gpu_(selected(gpu)),
      marks_(allocate_device(bytes_of_marks(parameters))),
      found_(allocate_pinned(bytes_of_marks(parameters))) {}

void GpuFiniteCheck::queue_check(std::size_t parameter, const ConstBuffer& values, Queue queue) {
  select_gpu(gpu_);
  mark_not_finite(values, static_cast<std::uint32_t*>(marks_.data()) + parameter, queue);
}

void GpuFiniteCheck::look(std::size_t parameter, const ConstBuffer& values, Queue queue) {
  if (queue.is_host()) {
    queue_check(parameter, values, stream_.queue());
    stream_.synchronize();
  } else {
    queue_check(parameter, values, queue);
    checked_.record(queue);
    checked_.hold_back(stream_.queue());
  }
}

void GpuFiniteCheck::look_at_constant(std::size_t parameter, const ConstBuffer& values) {
  queue_check(parameter, values, stream_.queue());
}

void GpuFiniteCheck::take(std::vector<std::uint8_t>& flawed) {
  select_gpu(gpu_);
  copy_bytes(found_.data(), marks_.data(), marks_.bytes(), stream_.queue());
  clear_bytes(marks_.data(), marks_.bytes(), stream_.queue());
  stream_.synchronize();
  const auto* found = static_cast<const std::uint32_t*>(found_.data());
  for (std::size_t i = 0; i < flawed.size(); ++i)
    if (found[i] != 0) flawed[i] = 1;
}

FiniteCheck::FiniteCheck(std::size_t parameters, std::optional<int> gpu) : flawed_(parameters, 0) {
  if (gpu) on_gpu_.emplace(parameters, *gpu);
}

void FiniteCheck::look(int parameter, const ConstBuffer& gradient, Queue queue) {
  const auto index = static_cast<std::size_t>(parameter);
  if (on_gpu_) {
    on_gpu_->look(index, gradient, queue);
  } else if (!kernels::all_finite(gradient)) {
    flawed_[index] = 1;
  }
}

double FiniteCheck::found() {
  if (on_gpu_) on_gpu_->take(flawed_);
  return static_cast<double>(std::count(flawed_.begin(), flawed_.end(), std::uint8_t{1}));
}

std::vector<DataParallel::NotFinite> FiniteCheck::gather(ProcessGroup& group, double found_by_all) {
  std::vector<DataParallel::NotFinite> all;
  if (found_by_all == 0) return all;
  for (MarkedParameters& of_rank : gather_marked(group, flawed_, "gradients that are not finite"))
    all.push_back({.rank = of_rank.rank, .host = std::move(of_rank.host), .parameters = std::move(of_rank.parameters)});
  std::fill(flawed_.begin(), flawed_.end(), std::uint8_t{0});
  return all;
}

std::vector<DataParallel::NotFinite> FiniteCheck::look_at_sums(const Layout& layout, const Buffer& sums,
                                                               std::span<const LayoutPart> parts,
                                                               Communicator* communicator) {
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    for (const LayoutPart& part : parts) {
      const LayoutPart here = common(part, {slot.offset, slot.count});
      if (here.count.value == 0) continue;
      const ConstBuffer values = slice(sums, here.offset, here.count);
      if (on_gpu_) {
        on_gpu_->look_at_constant(i, values);
      } else if (!kernels::all_finite(values)) {
        flawed_[i] = 1;
      }
    }
  }
  if (on_gpu_) on_gpu_->take(flawed_);
  if (communicator != nullptr)
    communicator->all_reduce(std::span(flawed_), std::span(flawed_), ReduceOp::max, Queue::host(), "found in own parts")
        .wait();
  std::vector<int> parameters = marked(flawed_);
  if (parameters.empty()) return {};
  std::fill(flawed_.begin(), flawed_.end(), std::uint8_t{0});
  return {{.rank = {}, .host = {}, .parameters = std::move(parameters)}};
}

}  // namespace lockstep::ddp
