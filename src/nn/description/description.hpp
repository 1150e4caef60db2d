// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/nn/models.hpp"

namespace lockstep::nn {

/// What a file of weights says of its model, so that a program can make the model, prepare its inputs and name its
/// outputs without the data set.
struct ModelDescription {
  std::string model;                            ///< its name in `Models`
  DataSpec data;                                ///< with the stem and the anchors that the model has
  std::vector<std::string> class_names;         ///< by label; empty: the classes have numbers only
  std::vector<std::int64_t> category_ids = {};  ///< by label, in COCO's files; empty: they are the labels
  std::string transforms = {};  ///< how pictures get the extents of "images" for evaluation, as --augment says it
  std::optional<Normalization> images = {};  ///< the numbers that bytes of "images" stand for, if they come from bytes
};

/// Texts by name, as the metadata of a safetensors file.
using Metadata = std::map<std::string, std::string>;

/// Returns the description as texts, whose names begin with "lockstep.". Names of classes that have line breaks or are
/// not UTF-8, which the format requires, get question marks there.
Metadata to_metadata(const ModelDescription& description);

/// Reads what `to_metadata` has written. Other texts are ignored.
/// @param file  path of the untrusted file, for messages
/// @return nothing if the metadata describe no model of lockstep
/// @throws Error{corrupt} that names the file and the text at fault
std::optional<ModelDescription> description_of(const Metadata& metadata, const std::string& file);

}  // namespace lockstep::nn
