// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/ddp/process_group.hpp"

namespace lockstep {

/// Returns rank 0's text on every rank. Collective.
std::string rank_zeros_text(ProcessGroup& group, const std::string& text);

/// Runs `work` on rank 0 only. Collective. @throws on every rank the Error that rank 0 throws
void on_rank_zero(ProcessGroup& group, const std::function<void()>& work);

}  // namespace lockstep
