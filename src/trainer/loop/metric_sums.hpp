// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/trainer/metric.hpp"

/// What metrics share.
namespace lockstep::trainer {

const nn::Node& first_loss(const nn::Graph& graph);

inline double fraction(double part, double whole) { return whole == 0 ? 0 : part / whole; }
/// Returns the index in the data set of the first sample of a part; 0 if it is not known.
inline std::int64_t first_of(const data::Batch& batch) { return batch.ids.empty() ? 0 : batch.ids.front(); }

}  // namespace lockstep::trainer
