// SPDX-License-Identifier: Apache-2.0
#pragma once

// The program `train` as a function, for programs with models, data sets, operators or compute libraries of their own.
// Link lockstep::train, which exists if lockstep was built with its programs.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/ops.hpp"
#include "lockstep/trainer/workload.hpp"

namespace lockstep {

/// A compute library for CPUs.
struct ComputeLibrary {
  std::string name;
  /// @param threads  OpenMP threads of the rank
  /// @param exact    whether to leave out what rounds more (--exact)
  std::function<std::unique_ptr<ops::Ops>(int threads, bool exact)> make;
};

/// The models, data sets, workloads and compute libraries that `train_main` offers by name. It contains lockstep's from
/// the start, and a program adds its own. Operators need no name, since a model contains them (`nn::Custom`).
struct Registry {
  Registry();

  nn::Models models;        ///< for --model
  data::Datasets datasets;  ///< for --dataset
  /// What models are trained for: classification, detection, segmentation, text, and other, which is evaluated by its
  /// loss alone.
  std::vector<trainer::Workload> workloads;
  std::vector<ComputeLibrary> libraries;     ///< for --ops
  std::string model = "lenet";               ///< default of --model
  std::string dataset = "synthetic-digits";  ///< default of --dataset
};

/// Runs the program `train`: it reads the options, trains on all ranks of the job, reports on standard output, and
/// prints errors on standard error behind the program's name, the last part of argv[0]. Call it from `main`:
///
///     int main(int argc, char** argv) {
///       lockstep::Registry registry;
///       registry.models.add({.name = "mine", .make = make_mine});
///       return lockstep::train_main(argc, argv, registry);
///     }
///
/// It initializes and finalizes MPI, so a process can call it once; if the program has initialized MPI itself, the
/// program finalizes it. Collective over the job. After an error of this rank alone it may not return, but abort the
/// job, because the other ranks may be waiting. All ranks must have the same registry, which is not compared.
/// @param argv  the arguments of `main`; --help lists the options, including the names in the registry
/// @return the exit code: 0 success, 1 an error, 2 a wrong command line or configuration file, 3 stopped by SIGINT,
///         SIGTERM or --max-time, 4 a rank did not answer in time. It has handlers for these signals and for SIGUSR1
///         while it trains
int train_main(int argc, char** argv, const Registry& registry = {});

}  // namespace lockstep
