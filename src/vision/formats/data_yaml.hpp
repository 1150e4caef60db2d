// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::vision {

/// What the data.yaml of a YOLO says.
struct DataYaml {
  std::string path;                ///< the folder of the data; empty: it says none
  std::vector<std::string> train;  ///< folders and lists of pictures
  std::vector<std::string> val;
  std::vector<std::string> test;
  std::vector<std::string> names;  ///< of the classes: "0", "1", … if it has only their number; empty: it has neither
};

/// Parses a data.yaml: `path`, `train`, `val` and `test`, each a text or a list of texts, `names`, a list or a map from
/// numbers, and `nc`, the number of classes. Other keys, such as `download`, are not read.
/// @param file  for messages
/// @throws Error{corrupt} with file and line if it is no YAML, a value has another form, classes lack a name or have
///         the same, or `nc` is not the number of names; Error{unsupported} if this lockstep was built without yaml-cpp
DataYaml parse_data_yaml(std::string_view text, const std::string& file);

}  // namespace lockstep::vision
