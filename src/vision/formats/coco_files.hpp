// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vision/formats/coco_json.hpp"

/// Where annotations and pictures of COCO lie. Paths are absolute.
namespace lockstep::vision {

/// The annotations of a folder.
struct CocoFiles {
  std::filesystem::path train;  ///< empty: there are none
  std::filesystem::path val;
  bool has_parts = true;  ///< whether names say which part a file is; else it is `train`
  std::string why_not;    ///< why there are none for either part, for messages
};

/// Whether a file is a JSON that begins as annotations of COCO do. @cost reads the first 64 KiB
bool is_coco_file(const std::filesystem::path& file);

/// Looks for annotations in a folder: `annotations/*.json`, those named `instances_*` before others, or
/// `train/_annotations.coco.json` and the like. Which part a file is follows from its name; a single file is the
/// training part.
CocoFiles coco_files_in(const std::filesystem::path& folder);

/// Returns the annotations of a validation part that the user has named: a JSON, or a folder with one.
/// @throws Error{io} if there are none
std::filesystem::path named_coco_part(const std::filesystem::path& val);

/// Returns the folder that the paths of a part's samples are relative to: that of the data.
std::filesystem::path root_of(const std::filesystem::path& annotations);

/// Returns the folder with the pictures of annotations, by the first picture that lies in one: `train2017` for
/// `instances_train2017.json`, that in a folder `images`, `images` itself, the folder of the data, or that of the file.
/// @param root  that of the data
/// @throws Error{io} that says where pictures were looked for, if there are images but none of them exists
std::filesystem::path folder_of_images(const std::filesystem::path& annotations, const std::filesystem::path& root,
                                       const std::vector<CocoImage>& images);

}  // namespace lockstep::vision
