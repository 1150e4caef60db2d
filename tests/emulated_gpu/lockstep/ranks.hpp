// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/nccl.hpp"
#include "lockstep/platform/mpi/world.hpp"

/// Ranks on emulated GPUs, one each: threads of this process, or the processes of the test.
namespace lockstep::on_emulated_gpus {

/// What a communicator is made with beside its options. All tell each other of failures.
enum class Checked { no, yes };  ///< whether ranks compare what they call

/// One rank, as what makes communicators.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int gpu() const = 0;
  /// A communicator of these ranks, in this order; nullptr where this one is not among them. Collective over all ranks.
  virtual std::unique_ptr<Communicator> make(const std::vector<int>& members, Progress& progress,
                                             backends::NcclOptions options = {}, Checked checked = Checked::no) = 0;
  /// Of all.
  std::unique_ptr<Communicator> make(Progress& progress, const backends::NcclOptions& options = {},
                                     Checked checked = Checked::no);
  /// Returns when all have called it.
  virtual void meet() = 0;
};

/// Runs the body on each of so many threads, and reports what any of them throws as a failure of the test.
void on_threads(int ranks, const std::function<void(Ranks&)>& body);

/// The processes of the test's MPI.
class Processes : public Ranks {
 public:
  [[nodiscard]] int rank() const override { return world_.rank().value; }
  [[nodiscard]] int size() const override { return world_.size(); }
  [[nodiscard]] int gpu() const override;
  using Ranks::make;
  std::unique_ptr<Communicator> make(const std::vector<int>& members, Progress& progress, backends::NcclOptions options,
                                     Checked checked) override;
  void meet() override;
  [[nodiscard]] const World& world() const { return world_; }
  void close() { world_.close(); }

 private:
  World world_;
};

/// NCCL's own algorithm that this process is to test, as a process has one: LOCKSTEP_NCCL_ALGORITHM, "ring", "tree" or
/// unset.
backends::NcclAlgorithm algorithm_of_process();

/// A number from the environment. Where LOCKSTEP_… is not set, `otherwise`.
int number_of_process(const char* variable, int otherwise);

}  // namespace lockstep::on_emulated_gpus
