// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace lockstep::ops::onednn {

/// Calls `body(member, members)` on each member of the team of threads that oneDNN's own primitives run on, and waits
/// for all. It throws nothing.
void on_team(const std::function<void(int member, int members)>& body);

}  // namespace lockstep::ops::onednn
