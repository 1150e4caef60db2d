// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/layout.hpp"

#include <limits>
#include <optional>

#include "base/borders.hpp"
#include "base/hash.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {

int Layout::add(std::string name, std::vector<std::int64_t> shape) {
  const auto same_name = [&name](const TensorSlot& slot) { return slot.name == name; };
  if (std::any_of(tensors_.begin(), tensors_.end(), same_name)) {
    throw Error(ErrorCode::invalid_argument, "two tensors are named '" + name + "'");
  }
  // The bytes of the whole allocation, in the widest dtype, have to be counted in 63 bits.
  const std::int64_t room = std::numeric_limits<std::int64_t>::max() / size_of(DType::float64) - count_.value;
  std::optional<std::int64_t> elements = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) {
      throw Error(ErrorCode::invalid_argument, "tensor '" + name + "' has dimension " + std::to_string(dimension));
    }
    if (elements) elements = product(*elements, dimension);
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) elements = 0;  // whatever its other dimensions
  if (!elements || *elements > room - alignment)
    throw Error(ErrorCode::invalid_argument, "tensor '" + name + "' has more elements than memory can hold");
  tensors_.push_back({std::move(name), std::move(shape), count_, {*elements}});
  count_.value += (*elements + alignment - 1) / alignment * alignment;
  return static_cast<int>(tensors_.size()) - 1;
}

const TensorSlot& Layout::find(const std::string& name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&name](const TensorSlot& slot) { return slot.name == name; });
  if (found == tensors_.end()) throw Error(ErrorCode::invalid_argument, "no tensor is named '" + name + "'");
  return *found;
}

std::uint64_t Layout::hash() const {
  Fnv1a hash;
  for (const TensorSlot& slot : tensors_) {
    hash.add(slot.name);
    for (const std::int64_t dimension : slot.shape) hash.add(dimension);
    hash.add(slot.offset.value);
  }
  return hash.value();
}

}  // namespace lockstep
