// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

/// Makes the records of the node's ranks, which the set keeps until it is closed, and tells the watchdogs about the
/// job. Collective, also over ranks without a watchdog. Makes nothing if no rank has one.
/// @param node  from `split_by_node`
void share_records(const RankSet& all, const RankSet& node);

/// Takes the watchdog out of the job, and closes the records of the set if nothing else uses them.
void leave_records(RankSet::Link& link);

}  // namespace lockstep
