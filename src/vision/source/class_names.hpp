// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vision/source/source.hpp"

namespace lockstep::vision {

/// Returns a source with the classes of a model: the label of a class becomes that of the model's class of the same
/// name. Where the classes of the source are "0", "1", … and some of them have no name of the model, they are its
/// labels already. COCO's numbers of classes come along, with −1 for a class that the source does not have.
/// @throws Error{invalid_argument} that names the first sample of a class that the model does not have
std::shared_ptr<const Source> with_class_names(std::shared_ptr<const Source> source,
                                               const std::vector<std::string>& class_names);

}  // namespace lockstep::vision
