// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/types.hpp"

/// What happens in a training run, as values: for the metrics file and for the display.
namespace lockstep::observe {

/// Once, before the first step: what is trained, how, and where.
struct StartEvent {
  std::string version;
  std::string model;
  std::string dataset;
  std::string algorithm;  ///< of the all-reduce
  std::string compress;   ///< what gradients travel as: "none", "bf16", "fp16"
  std::string device;
  std::string ops;
  std::string precision;
  std::string kernel_choices;  ///< hash of those by which operators are computed; empty: by the back end's rule
  std::string emulation;       ///< how it is emulated, as far as it is, and why; empty where it is not
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;
  Count batch;                     ///< over all ranks
  std::vector<std::string> hosts;  ///< of each rank, so as many as ranks
};

/// After every step: how far the run has come.
struct ProgressEvent {
  std::int64_t epoch = 0;   ///< from 1
  std::int64_t step = 0;    ///< of the epoch, from 1
  double loss = 0;          ///< mean over the samples of all ranks
  std::int64_t images = 0;  ///< trained on in this run so far, over all ranks
  double seconds = 0;       ///< of training in this run so far, evaluation not included
};

/// After every batch of an evaluation: how far it has come.
struct EvaluationEvent {
  std::int64_t epoch = 0;    ///< the epoch that is evaluated
  std::int64_t batch = 0;    ///< the batch that has just ended, from 1
  std::int64_t batches = 0;  ///< in the whole evaluation
};

/// After every so many steps of an epoch: the step that has just ended.
struct StepEvent {
  std::int64_t epoch = 0;        ///< from 1
  std::int64_t step = 0;         ///< of the epoch, from 1
  double loss = 0;               ///< mean over the samples of all ranks
  double learning_rate = 0;      ///< of this step's update
  double images_per_second = 0;  ///< over all ranks
};

/// After an epoch and its evaluation, where it has one.
struct EpochEvent {
  std::int64_t epoch = 0;
  double train_loss = 0;
  std::optional<double> val_loss;            ///< none where the epoch was not evaluated, as val_accuracy
  std::optional<double> val_accuracy;        ///< 0 … 1
  double seconds = 0;                        ///< of training, evaluation not included
  double images_per_second = 0;              ///< of training, over all ranks
  double exposed_communication_seconds = 0;  ///< rank 0 waited for all-reduces after backward
  double data_wait_seconds = 0;              ///< rank 0 waited for batches
  double evaluation_seconds = 0;             ///< 0 where the epoch was not evaluated
};

/// Once, whatever ended the run.
struct EndEvent {
  std::string outcome;      ///< "completed" where all epochs or steps were trained, "stopped" by a signal, or "failed"
  std::string signal;       ///< by which the run was stopped, e.g. "SIGTERM"; else empty
  std::int64_t epochs = 0;  ///< that were completed
  std::int64_t steps = 0;   ///< that were taken
  double seconds = 0;
  std::optional<double> best_accuracy;  ///< none where nothing was evaluated
  std::optional<double> final_accuracy;
  std::int64_t skipped_updates = 0;  ///< steps whose gradients a loss scale had made infinite
  std::int64_t optimizer_bytes = 0;  ///< velocity and averages of weights, on the rank that has most of them
  std::string weights_sha256;        ///< of the last weights, empty where the run failed
};

}  // namespace lockstep::observe
