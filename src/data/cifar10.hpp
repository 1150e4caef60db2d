// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "data/images_pair.hpp"

namespace lockstep::data {

/// Reads CIFAR-10 in its binary format: data_batch_1.bin … data_batch_5.bin and test_batch.bin, with records of a label
/// and the red, green and blue pixels of a 32×32 image, row by row.
/// @param data_dir  the folder that contains these files, or the folder cifar-10-batches-bin with them
/// @throws Error{invalid_argument} if `data_dir` is empty; Error{io} if it or a file is missing or cannot be read;
///         Error{corrupt} for an empty file, a length that is no multiple of a record, or a label above 9. They name
///         the file
/// @source Krizhevsky, Learning multiple layers of features from tiny images, 2009
ImagesPair load_cifar10(const std::filesystem::path& data_dir);

}  // namespace lockstep::data
