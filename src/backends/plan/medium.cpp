// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/medium.hpp"

#include <string>
#include <vector>

namespace lockstep::backends {

/// Only where it does what the one does that complains, this rank knows which of the two it agrees with: it may as well
/// be an operation behind.
Error mismatch_after(const Complaint& complaint, const Signature& ours) {
  const std::vector<int> both{complaint.by, complaint.about};
  return Error(ErrorCode::mismatch,
               "rank " + std::to_string(complaint.by) + " found that rank " + std::to_string(complaint.about) +
                   " calls something else than its " + describe(complaint.call),
               {.peers = complaint.call == ours ? std::vector{complaint.about} : both});
}

}  // namespace lockstep::backends
