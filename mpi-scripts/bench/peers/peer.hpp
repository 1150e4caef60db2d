// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/comm-bench/exercise.hpp"
#include "apps/comm-bench/measure.hpp"
#include "lockstep/base/buffer.hpp"

/// Programs that measure the all-reduces of other libraries, with comm-bench's own protocol (`measure`), table and
/// JSON. They are plain MPI programs without the rest of lockstep, so that each can be linked to the MPI library that
/// it measures.
namespace lockstep::peers {

/// What a program measures. It is made after MPI_Init and destroyed before MPI_Finalize.
class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;

  /// Returns the library and its version in one line.
  [[nodiscard]] virtual std::string title() const = 0;
  /// Returns the ways to run a float sum in place on the largest buffer. Collective.
  virtual comm_bench::Contenders contenders() = 0;
  /// Allocates the buffer in which all sizes are measured. Collective.
  virtual void* allocate(Bytes bytes);
  /// Returns the operation at one size, with the check of its result.
  virtual std::unique_ptr<comm_bench::Exercise> exercise(const comm_bench::Exercise::Shape& shape, void* memory);

 private:
  Allocation memory_;
};

/// Initializes MPI, measures all sizes that the command line requests, prints comm-bench's table, and writes its JSON.
///   [--min 4] [--max 64M] [--factor 4] [--seconds 0.5] [--repetitions 0] [--warmup 2]
///   [--protocol common-clock|barrier] [--wait auto|yield] [--json FILE]
/// @return the exit code for main(): 0, 1 for an error or a wrong result, 2 for an invalid command line
int run_peer(int argc, char** argv, const std::function<std::unique_ptr<Peer>()>& make);

}  // namespace lockstep::peers
