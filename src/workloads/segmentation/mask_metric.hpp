// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/trainer/workload.hpp"
#include "vision/source/source.hpp"
#include "workloads/finding.hpp"

namespace lockstep::workloads {

/// Makes "loss", and over all pixels of the stored masks that have a class: "accuracy", the part of them whose class
/// the model finds, and "miou", the mean over classes of intersection ÷ union. Classes that neither masks nor
/// predictions have do not count. A mask has the pixels of its file, whatever the size of the network's input.
/// @param source  of the samples that are evaluated
/// @throws Error{invalid_argument} if the model has no number for each class and pixel
trainer::Workload::Metrics mask_metrics(const FoundModel& model, std::shared_ptr<const vision::Source> source);

}  // namespace lockstep::workloads
