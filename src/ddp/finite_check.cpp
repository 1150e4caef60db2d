// SPDX-License-Identifier: Apache-2.0
#include "ddp/finite_check.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/finite.hpp"

namespace lockstep::ddp {
namespace {

constexpr std::size_t longest_host = 256;  // bytes; POSIX allows names of 255

std::vector<int> marked(std::span<const std::uint8_t> flags) {
  std::vector<int> indices;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != 0) indices.push_back(static_cast<int>(i));
  return indices;
}

}  // namespace

void FiniteCheck::look(int parameter, const ConstBuffer& gradient) {
  if (!kernels::all_finite(gradient)) mark(static_cast<std::size_t>(parameter));
}

std::vector<DataParallel::NotFinite> FiniteCheck::gather(const ProcessGroup& group, Communicator& communicator,
                                                         double found_by_all) {
  std::vector<DataParallel::NotFinite> all;
  if (found_by_all == 0) return all;
  // The message holds each rank's flags and host name.
  std::vector<std::uint8_t> mine = flawed_;
  mine.resize(flawed_.size() + longest_host, 0);
  std::copy_n(group.host().begin(), std::min(group.host().size(), longest_host - 1),
              mine.begin() + static_cast<std::ptrdiff_t>(flawed_.size()));
  std::vector<std::uint8_t> of_all(mine.size() * static_cast<std::size_t>(group.size()));
  communicator.all_gather(std::span(mine), std::span(of_all), Queue::host(), "gradients that are not finite").wait();
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto its = std::span(of_all).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
    const auto host = its.subspan(flawed_.size());
    std::vector<int> parameters = marked(its.first(flawed_.size()));
    if (parameters.empty()) continue;
    all.push_back({.rank = rank,
                   .host = std::string(host.begin(), std::find(host.begin(), host.end(), std::uint8_t{0})),
                   .parameters = std::move(parameters)});
  }
  std::fill(flawed_.begin(), flawed_.end(), std::uint8_t{0});
  found_ = 0;
  return all;
}

std::vector<DataParallel::NotFinite> FiniteCheck::look_at_sums(const Layout& layout, const Buffer& sums,
                                                               std::span<const LayoutPart> parts,
                                                               Communicator* communicator) {
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    for (const LayoutPart& part : parts) {
      const LayoutPart here = common(part, {slot.offset, slot.count});
      if (here.count.value > 0 && !kernels::all_finite(slice(sums, here.offset, here.count))) flawed_[i] = 1;
    }
  }
  if (communicator != nullptr)
    communicator->all_reduce(std::span(flawed_), std::span(flawed_), ReduceOp::max, Queue::host(), "found in own parts")
        .wait();
  std::vector<int> parameters = marked(flawed_);
  if (parameters.empty()) return {};
  std::fill(flawed_.begin(), flawed_.end(), std::uint8_t{0});
  return {{.rank = {}, .host = {}, .parameters = std::move(parameters)}};
}

}  // namespace lockstep::ddp
