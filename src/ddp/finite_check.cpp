// SPDX-License-Identifier: Apache-2.0
#include "ddp/finite_check.hpp"

#include <algorithm>

#include "ddp/rank_zero.hpp"
#include "kernels/finite.hpp"

namespace lockstep::ddp {

void FiniteCheck::look(int parameter, const ConstBuffer& gradient) {
  if (!kernels::all_finite(gradient)) mark(static_cast<std::size_t>(parameter));
}

std::vector<DataParallel::NotFinite> FiniteCheck::gather(ProcessGroup& group, double found_by_all) {
  std::vector<DataParallel::NotFinite> all;
  if (found_by_all == 0) return all;
  for (MarkedParameters& of_rank : gather_marked(group, flawed_, "gradients that are not finite"))
    all.push_back({.rank = of_rank.rank, .host = std::move(of_rank.host), .parameters = std::move(of_rank.parameters)});
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
