// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/ddp/process_group.hpp"

namespace lockstep {

/// Returns the text of one rank, rank 0 unless `root` names another, on every rank. Collective.
std::string text_of_rank(ProcessGroup& group, const std::string& text, Rank root = {0});

/// Runs `work` on rank 0 only. Collective. @throws on every rank the Error that rank 0 throws
void on_rank_zero(ProcessGroup& group, const std::function<void()>& work);

}  // namespace lockstep
