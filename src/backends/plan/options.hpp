// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/collectives/choice/selection.hpp"

namespace lockstep::backends {

/// How ranks that share memory go about it.
struct NodeOptions {
  /// The size of a block: operations are cut into blocks of this size. Ordinary memory passes through it, and should
  /// find it in the cache.
  Bytes staging{256 * 1024};
  /// Each rank adds up a whole all-reduce by itself, for a single synchronization, where it reads no more than this of
  /// all the others'.
  Bytes pull_limit{4096};
  /// Larger buffers are taken not to be in the cache, nor to be wanted there. Found by measuring: what a virtual
  /// machine says of its caches is not what it gets.
  Bytes cache{8 * 1024 * 1024};
};

/// How plans are driven. Equal on all ranks of a communicator: sizes decide what is sent.
struct PlanOptions {
  collectives::Selection selection;  ///< decides for each operation and size; the communicator gives it its shape
  int operations_in_flight = 4;      ///< later operations wait for their turn
  NodeOptions node;
  Bytes message_limit{1 << 30};  ///< longer sends and recvs are cut; MPI counts the bytes of a message in an int
  /// An operation that does not advance on this rank for so long fails with Error{timeout}.
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  Observer* observer = nullptr;  ///< told of each operation that ends; outlives the communicator
  /// Told what there is to say when the communicator is made and is no error; the library prints nothing itself.
  std::function<void(std::string_view)> notice = nullptr;
};

}  // namespace lockstep::backends
