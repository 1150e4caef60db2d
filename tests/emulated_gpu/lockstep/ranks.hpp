// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/nccl.hpp"
#include "lockstep/mpi/world.hpp"

/// Ranks on emulated GPUs, one each: threads of this process, or the processes of the test.
namespace lockstep::on_emulated_gpus {

/// A property of a communicator in addition to its options. All communicators notify their peers of failures.
enum class Checked { no, yes };  ///< whether ranks compare their calls

/// One rank, which makes communicators together with the others.
class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int gpu() const = 0;
  /// Makes a communicator of these ranks, in this order; nullptr if this rank is not among them. Collective over all
  /// ranks.
  virtual std::unique_ptr<Communicator> make(const std::vector<int>& members, Progress& progress,
                                             backends::NcclOptions options = {}, Checked checked = Checked::no) = 0;
  /// Makes a communicator of all ranks.
  std::unique_ptr<Communicator> make(Progress& progress, const backends::NcclOptions& options = {},
                                     Checked checked = Checked::no);
  /// Returns when all ranks have called it.
  virtual void meet() = 0;
};

/// Runs the body on `ranks` threads; an exception on any of them fails the test.
void on_threads(int ranks, const std::function<void(Ranks&)>& body);

/// The MPI processes of the test.
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

/// Returns the NCCL algorithm that this process tests, because a process has only one: LOCKSTEP_NCCL_ALGORITHM, "ring",
/// "tree" or unset.
backends::NcclAlgorithm algorithm_of_process();

/// Returns a number from the environment variable, or `otherwise` if it is not set.
int number_of_process(const char* variable, int otherwise);

}  // namespace lockstep::on_emulated_gpus
