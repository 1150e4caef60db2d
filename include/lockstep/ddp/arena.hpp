// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::ddp {

/// Parameters, gradients and optimizer state: three flat allocations of one layout, where the communicator is fastest.
/// Element i of each belongs to the same weight. All zero at first.
class Arena {
 public:
  /// @throws std::bad_alloc; Error{device}
  Arena(Layout layout, DType dtype, Communicator& communicator);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] Buffer parameters() const { return view(parameters_); }
  [[nodiscard]] Buffer gradients() const { return view(gradients_); }
  [[nodiscard]] Buffer optimizer_state() const { return view(optimizer_state_); }
  /// One tensor's part of one of the three. @param whole  e.g. `gradients()`
  [[nodiscard]] Buffer tensor(const Buffer& whole, int index) const;

 private:
  [[nodiscard]] Buffer view(const Allocation& memory) const;

  Layout layout_;
  DType dtype_;
  Allocation parameters_;
  Allocation gradients_;
  Allocation optimizer_state_;
};

}  // namespace lockstep::ddp
