// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace lockstep::ops::onednn {

/// Calls `body(member, members)` on each thread of the team on which oneDNN's primitives run, and waits for all. It
/// does not throw.
void on_team(const std::function<void(int member, int members)>& body);

}  // namespace lockstep::ops::onednn
