// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vision/source/source.hpp"
#include "vision/source/survey.hpp"

/// The data of users: which format they have, and what they contain.
namespace lockstep::vision {

/// What networks of texts can be taught.
struct TextOptions {
  std::filesystem::path dictionary;  ///< a file with a character on each line; empty: 0 to 9 and a to z
  bool has_space = false;            ///< whether a space is a character as well
  int longest = 25;                  ///< most characters of a text; samples with longer ones are left out
};

/// Which data to open, and how they are divided.
struct SourceOptions {
  std::filesystem::path data;  ///< a folder, or a file
  std::string format;          ///< a name of format_names(); empty: recognized
  std::filesystem::path val;   ///< the validation part; empty: as the layout says
  double val_split = 0;        ///< this fraction of the training samples becomes the validation part; 0: none
  std::uint64_t seed = 1;      ///< of the division
  /// Whether classes of MNIST's form that have no names are those up to the largest label, as --dataset has them, in
  /// place of ten.
  bool counts_classes = false;
  bool evaluates_only = false;  ///< data without parts are the part to evaluate; else they are the training part
  /// The names of a model's classes, by label. The labels of the data then become those of the classes of the same
  /// name; data whose classes have only numbers keep them. Empty: the classes are those of the data.
  std::vector<std::string> class_names;
  TextOptions texts = {};
};

/// The samples to train on and to evaluate on. Both have the same class names. A part that the data lack is null, but
/// one of them is there; who needs both says so in words of its own.
struct Sources : SourcePair {
  Survey survey;
};

/// Opens data: recognizes their format, lists the samples, and reads annotations. The samples and their order depend on
/// the options and the files only.
/// @throws Error{io} if a file or folder is missing or cannot be read; Error{corrupt} for a wrong line or annotation,
///         or a label that is no class, with file and line; Error{invalid_argument} if the format is not recognized, or
///         the options do not fit the data, or a sample is of none of the classes that they name; Error{unsupported} if
///         this lockstep was built without a library that is needed
/// @cost reads all lists and annotations, looks up every picture, and reads the headers of those whose annotations do
///       not say their size (`yolo`, `voc`); decodes none
Sources open_sources(const SourceOptions& options);

/// Opens both parts of data of a format as their files say, without looking for its marks. @throws as open_sources
SourcePair open_format(std::string_view format, const std::filesystem::path& data);

/// The names of the formats, in the order in which they are tried.
std::vector<std::string_view> format_names();

}  // namespace lockstep::vision
