// SPDX-License-Identifier: Apache-2.0
#pragma once

// The program `train` for programs that have something of their own to train; its target is lockstep::train, which is
// there where lockstep's programs were built.

#include <string>

#include "lockstep/data/datasets.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep {

/// What `train_main` knows by name. What comes with lockstep is in it from the start; a program adds its own. Operators
/// need no name here: a model brings its own along (`nn::Custom`).
struct Registry {
  nn::Models models;                         ///< for --model
  data::Datasets datasets;                   ///< for --dataset
  std::string model = "lenet";               ///< where --model is not given
  std::string dataset = "synthetic-digits";  ///< where --dataset is not given
};

/// The whole of the program `train`: reads its options, trains on all ranks of the job, reports on standard output, and
/// says on standard error what went wrong, under the program's own name, the last part of argv[0]. For `main` to
/// return:
///
///     int main(int argc, char** argv) {
///       lockstep::Registry registry;
///       registry.models.add({.name = "mine", .make = make_mine});
///       return lockstep::train_main(argc, argv, registry);
///     }
///
/// It begins MPI and ends it, so it can be called once a process; where the program has begun MPI itself, ending it is
/// left to the program. Collective over the job. After an error that only this rank knows of it does not return: it
/// ends the job, since the other ranks may be waiting. All ranks must have the same registry, which nobody compares.
/// @param argv  as `main` gets it; --help lists the options, what the registry has among them
/// @return the exit code: 0 success, 1 an error, 2 a wrong command line or configuration file, 3 stopped by SIGINT,
///         SIGTERM or SIGUSR1, for which it has handlers while it trains
int train_main(int argc, char** argv, const Registry& registry = {});

}  // namespace lockstep
