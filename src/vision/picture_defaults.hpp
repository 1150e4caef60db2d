// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"
#include "vision/source/source.hpp"
#include "vision/transforms/transforms.hpp"

/// What a network's input is where the user does not say it.
namespace lockstep::vision {

/// Whether a source holds its pictures in memory, as MNIST's, instead of files to be decoded. They have one size.
bool is_in_memory(const Source& source);

/// The size of the network's input, and whether all pictures have it.
struct InputSize {
  Size size;
  bool are_equal = false;
};

/// Returns the size of the pictures if all have the same and no side is longer than 64 pixels, otherwise 224×224. Bad
/// samples do not count.
/// @cost reads the headers of pictures, up to the first one that is larger or different
/// @throws Error{io} if a picture cannot be read; Error{unsupported} for a kind of file that this lockstep was built
///         without
InputSize default_input(const Source& source);
/// Returns a size that the user gives, and whether all pictures have it. @cost, @throws as above
InputSize given_input(const Source& source, const Size& size);

/// Returns the first picture of a source that holds its pictures in memory, with the channels that it has.
Image first_picture(const Source& source);

/// Returns the sizes of training steps of many scales: both sides are multiples of 32, or of 8 where a side of the
/// input is shorter than 64 pixels (networks for such pictures halve them less often), and the longer side is all such
/// multiples from `least` to `most` times the input's. The other side has the input's ratio, rounded. In ascending
/// order.
/// @throws Error{invalid_argument} unless there are two at least
std::vector<Size> sizes_between(const Size& input, double least, double most);

/// Returns the size of a stored picture, upright, by its header; nothing for a bad one.
/// @param bytes  memory that is used again
/// @throws as default_input
std::optional<Size> size_of_sample(const Source& source, std::int64_t sample, std::vector<std::byte>& bytes);

/// Returns the channels of pictures that the source holds in memory, such as 1 of MNIST, and 3 for files.
int default_channels(const Source& source);

/// Returns mean and deviation of the pictures where the source holds them in memory, as MNIST and CIFAR-10, and those
/// of ImageNet for files.
/// @param source  the training part
/// @cost one pass over pictures in memory
Normalization default_normalization(const Source& source, int channels);

}  // namespace lockstep::vision
