// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backends/plan/options.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/ranks/rank_link.hpp"

namespace lockstep::backends {

class Medium;
struct CommunicatorOptions;

/// A library that carries messages between the ranks of a set (`RankSet::Link::messages`), and has collectives of its
/// own. MPI is one.
class MessageLibrary : public MessageCarrier {
 public:
  /// Makes a medium of the library's messages. Collective. @throws Error{transport}
  [[nodiscard]] virtual std::unique_ptr<Medium> make_medium(const RankSet& set, int channels) const = 0;
  /// Makes a communicator over the library's own collectives. Collective. @throws Error{transport | invalid_argument}
  [[nodiscard]] virtual std::unique_ptr<Communicator> make_communicator(const RankSet& set, Progress& progress,
                                                                        const CommunicatorOptions& options) const = 0;
};

/// The library of a set; null if its ranks have connections of lockstep's own.
inline const MessageLibrary* library_of(const RankSet& set) {
  return static_cast<const MessageLibrary*>(set.link().messages);
}

}  // namespace lockstep::backends
