// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "lockstep/base/types.hpp"
#include "lockstep/data/images.hpp"

/// The two parts of a data set of images, read from files or drawn.
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

/// Which parts of a data set are read. Without the training part, `ImagesPair::train` has no images.
enum class LoadedParts { both, test };

/// Reads a data set of MNIST's form, of any image size and number of classes, from four files:
/// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each with or
/// without .gz, or with a dot before "idx" as unpacked by some tools. Classes are 0 … the largest label in train, which
/// is at most 9, unless the folder has a file classes.txt: then they are its lines that are not blank, and labels may
/// be as large as these allow. Without the training part they are ten.
/// @throws Error as read_idx; Error{io} if a file is missing; Error{corrupt} if the files do not belong together, or a
///         label is no class
ImagesPair load_mnist(const std::filesystem::path& data_dir, LoadedParts parts = LoadedParts::both);
/// Returns the path of a file of such a data set that exists; empty if none does.
/// @param part  "train" or "t10k" @param kind  "images-idx3" or "labels-idx1"
std::filesystem::path mnist_file(const std::filesystem::path& data_dir, const std::string& part, std::string kind);

/// Reads CIFAR-10 in its binary format: data_batch_1.bin … data_batch_5.bin and test_batch.bin, with records of a label
/// and the red, green and blue pixels of a 32×32 image, row by row.
/// @param data_dir  the folder that contains these files, or the folder cifar-10-batches-bin with them
/// @throws Error{invalid_argument} if `data_dir` is empty; Error{io} if it or a file is missing or cannot be read;
///         Error{corrupt} for an empty file, a length that is no multiple of a record, or a label above 9. They name
///         the file
/// @source Krizhevsky, Learning multiple layers of features from tiny images, 2009
ImagesPair load_cifar10(const std::filesystem::path& data_dir, LoadedParts parts = LoadedParts::both);
/// Returns the files of both parts in the folder, or in cifar-10-batches-bin below it, whether they exist or not.
struct Cifar10Files {
  std::vector<std::filesystem::path> train;
  std::filesystem::path test;
};
Cifar10Files cifar10_files(const std::filesystem::path& data_dir);

/// Size and seed of a drawn data set. Sample i of a part depends on (seed, part, i) only, so a larger data set begins
/// with the smaller one, and the order of drawing does not matter.
struct SyntheticOptions {
  std::uint64_t seed = 1;
  Count train{12'000};
  Count test{2'000};
};

/// Returns gray 28×28 images of the digits 0 … 9, drawn as anti-aliased pen strokes that vary in form, thickness,
/// position, scale, rotation and slant, with specks and noise. Only exactly rounded arithmetic is used, so the bytes
/// are the same on every machine with IEEE 754 doubles.
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_digits(const SyntheticOptions& options);

/// Returns color 32×32 images in ten classes: stripes, checkers, dots, rings, warm disc, cool disc, triangle, square,
/// cross and gradient. The two discs differ only in color, the textures only in texture. The bytes are as reproducible
/// as those of synthetic_digits().
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_cifar(const SyntheticOptions& options);

/// Returns color 224×224 images like those of synthetic_cifar(), in 1,000 classes: each of its ten in ten ranges of
/// rotations and ten of sizes.
/// @throws Error{invalid_argument} if a size is not positive
ImagesPair synthetic_imagenet(const SyntheticOptions& options);

/// Returns color 48×48 images of one to three shapes (disc, triangle, square, cross; four classes) that may cover each
/// other, and their positions for 12×12 cells of 4×4 pixels, then 6×6 cells of 8×8 pixels, then 3×3 cells of 16×16
/// pixels, 189 cells in total. The box of a shape surrounds its visible part. A shape belongs to the cell with the
/// middle of its box, on the finest scale on which the box is shorter than three cells, or on the coarsest scale. If
/// shapes share a cell, the foremost counts. Tensors beside "images": "labels" 1×1×189, the class, or −100 if there is
/// no shape; "objects" 1×1×189, 1 or 0; "boxes" 4×1×189: the left, top, right and bottom edge relative to the middle of
/// the cell, in cells, or zeros.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_boxes(const SyntheticOptions& options);

/// Returns the same images with the contents of each pixel. Tensors beside "images": "labels" 1×48×48, 0 for the
/// background and 1 … 4 for the shapes; "masks" 5×48×48, 1 in the plane of that label and 0 in the others.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_masks(const SyntheticOptions& options);

/// Returns gray 16×64 images of one to five digits, written from left to right. Tensors beside "images": "targets"
/// 1×1×5, the digits, followed by zeros; "target_lengths", their number; "steps", the number of columns of 4 pixels
/// that are written on.
/// @throws Error{invalid_argument} if a size is not positive
DatasetPair synthetic_words(const SyntheticOptions& options);

}  // namespace lockstep::data
