// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/data/dataset.hpp"
#include "vision/collate.hpp"
#include "vision/source/source.hpp"

namespace lockstep::vision {

/// Makes data sets of pictures of one size that sources hold in memory: as they are, normalized by mean and deviation
/// of the training part. @cost one pass over the pictures of the training part
/// @pre both parts are there, and the training part has samples
data::DatasetPair whole_pictures(const SourcePair& sources,
                                 const std::shared_ptr<const Collate>& collate = std::make_shared<LabelCollate>());

}  // namespace lockstep::vision
