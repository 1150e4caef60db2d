// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/observe/events.hpp"

namespace lockstep::train {

/// Returns a table of the classes with their samples, recall, precision and F1, and behind it the confusion matrix, or,
/// if that is too wide, the pairs of classes that are confused most often.
/// @param columns  the length that no line of the matrix exceeds
std::string class_table(const observe::ClassCounts& counts, std::size_t columns);

/// Returns a sentence that names the classes that averages over classes leave out, because no test sample has them;
/// empty if there are none. A class that something was taken for counts, but in average precisions.
/// @param columns  the length that no line exceeds
std::string absent_classes(const observe::ClassCounts& counts, std::size_t columns);

}  // namespace lockstep::train
