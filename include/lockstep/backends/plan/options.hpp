// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string_view>

#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/collectives/algorithm.hpp"
#include "lockstep/collectives/selection.hpp"

namespace lockstep::backends {

/// How ranks that share memory go about it.
struct NodeOptions {
  /// Of a block: operations are cut into blocks of this size. Ordinary memory passes through it, and should find it in
  /// the cache.
  Bytes staging{256 * 1024};
  /// Each rank adds up a whole all-reduce by itself, for a single synchronisation, where it reads no more than this of
  /// all the others'.
  Bytes pull_limit{4096};
  /// Larger buffers are taken not to be in the cache, nor to be wanted there. Found by measuring: what a virtual
  /// machine says of its caches is not what it gets.
  Bytes cache{8 * 1024 * 1024};
};

/// How plans are driven. Equal on all ranks of a communicator: sizes decide what is sent.
struct PlanOptions {
  collectives::Algorithm algorithm = collectives::Algorithm::ring;  ///< of all_reduce
  Bytes segment = collectives::Choice{}.segment;                    ///< longest message: pipelining unit
  /// Pieces of one operation that are under way at a time.
  int blocks_in_flight = collectives::Choice{}.blocks_in_flight;
  int radix = 2;  ///< of halving-doubling and recursive doubling: how many exchange in one round, at most
  /// Decides for each operation and size instead of the four above. For as many ranks as the communicator has.
  std::optional<collectives::Selection> selection;
  int operations_in_flight = 4;  ///< later operations wait for their turn
  NodeOptions node;
  /// An operation that does not advance on this rank for so long fails with Error{timeout}.
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  Observer* observer = nullptr;  ///< told of each operation that ends; outlives the communicator
  /// Told what there is to say when the communicator is made and is no error; the library prints nothing itself.
  std::function<void(std::string_view)> notice = nullptr;
};

}  // namespace lockstep::backends
