// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workloads/picture_task.hpp"

namespace lockstep::workloads {

/// A class for each picture: the findings of a model are the likeliest classes, at most five, with their
/// probabilities.
PictureTask classification();

}  // namespace lockstep::workloads
