// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/comm-bench/contender.hpp"
#include "apps/comm-bench/exercise.hpp"
#include "lockstep/base/buffer.hpp"

/// Programs that other libraries' all-reduces are measured with: comm-bench's own protocol (`measure`), table and JSON
/// around somebody else's collective. They are plain MPI programs without the rest of lockstep, so that each can be
/// linked to the MPI library that it is to measure.
namespace lockstep::peers {

/// What a program measures. Made after MPI_Init, destroyed before MPI_Finalize.
class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;

  /// The library and its version, one line.
  [[nodiscard]] virtual std::string title() const = 0;
  /// Ways to run a float sum in place on `memory`, the largest buffer. Collective.
  virtual comm_bench::Contenders contenders() = 0;
  /// The buffer that all sizes are measured in. Collective.
  virtual void* allocate(Bytes bytes);
  /// The operation at one size, and the proof of its result.
  virtual std::unique_ptr<comm_bench::Exercise> exercise(const comm_bench::Exercise::Shape& shape, void* memory);

 private:
  Allocation memory_;
};

/// Initializes MPI, measures all sizes that the command line asks for, prints comm-bench's table, writes its JSON.
///   [--min 4] [--max 64M] [--factor 4] [--seconds 0.5] [--repetitions 0] [--warmup 2]
///   [--protocol common-clock|barrier] [--wait auto|yield] [--json FILE]
/// @return for main() to return: 0, 1 for an error or a wrong result, 2 for a wrong command line
int run_peer(int argc, char** argv, const std::function<std::unique_ptr<Peer>()>& make);

}  // namespace lockstep::peers
