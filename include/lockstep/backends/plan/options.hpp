#pragma once

#include <chrono>
#include <limits>

#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/collectives/algorithm.hpp"

namespace lockstep::backends {

/// How plans are driven. Equal on all ranks of a communicator: sizes decide what is sent.
struct PlanOptions {
  collectives::Algorithm algorithm = collectives::Algorithm::ring;  ///< of all_reduce
  Bytes segment{128 * 1024};     ///< longest message: pipelining unit, small enough to stay in cache
  int blocks_in_flight = 2;      ///< pieces of one operation that are under way at a time
  int operations_in_flight = 4;  ///< later operations wait for their turn
  /// An operation that does not advance on this rank for so long fails with Error{timeout}.
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  Observer* observer = nullptr;  ///< told of each operation that ends; outlives the communicator
};

}  // namespace lockstep::backends
