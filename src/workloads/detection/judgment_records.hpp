// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/detection/matching.hpp"

namespace lockstep::workloads {

/// Appends pictures as whole numbers, which ranks exchange: 7 for each class of a picture, and 3 for each detection.
void append_records(std::span<const PictureOfClass> pictures, std::vector<std::int64_t>& records);

/// Reads what several ranks have appended, one after the other.
/// @return by ascending picture, then class. A picture that occurs more than once counts once.
std::vector<PictureOfClass> read_records(std::span<const std::int64_t> records);

}  // namespace lockstep::workloads
