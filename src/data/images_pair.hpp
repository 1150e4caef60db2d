// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "lockstep/data/images.hpp"

/// The two parts of a data set of images, and reading them from files.
namespace lockstep::data {

/// The training images and the test images, before they become data sets. Both have the same shape and number of
/// classes.
struct ImagesPair {
  Images train;
  Images test;
};

/// A file of unsigned bytes in the IDX format: big-endian magic number (type and number of dimensions), sizes, data.
struct IdxFile {
  std::vector<std::int64_t> sizes;
  std::vector<std::uint8_t> bytes;  ///< product of `sizes`, row-major
};

/// Reads an IDX file of unsigned bytes, plain or gzipped; the contents decide which, not the name.
/// @param dimensions  3 for images (count × height × width), 1 for labels
/// @throws Error{io} if it cannot be opened or read; Error{corrupt} if it is empty, another kind of file, damaged,
///         shorter or longer than its header says
/// @source LeCun, Cortes, Burges: The MNIST database of handwritten digits, "File formats"
IdxFile read_idx(const std::filesystem::path& path, int dimensions);

/// Reads a data set of MNIST's form, of any image size and number of classes, from four files:
/// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each with or
/// without .gz, or with a dot before "idx" as unpacked by some tools. Classes are 0 … the largest label in train.
/// @throws Error as read_idx; Error{io} if a file is missing; Error{corrupt} if the files do not belong together
ImagesPair load_mnist(const std::filesystem::path& data_dir);

/// Reads CIFAR-10 in its binary format: data_batch_1.bin … data_batch_5.bin and test_batch.bin, with records of a label
/// and the red, green and blue pixels of a 32×32 image, row by row.
/// @param data_dir  the folder that contains these files, or the folder cifar-10-batches-bin with them
/// @throws Error{invalid_argument} if `data_dir` is empty; Error{io} if it or a file is missing or cannot be read;
///         Error{corrupt} for an empty file, a length that is no multiple of a record, or a label above 9. They name
///         the file
/// @source Krizhevsky, Learning multiple layers of features from tiny images, 2009
ImagesPair load_cifar10(const std::filesystem::path& data_dir);

}  // namespace lockstep::data
