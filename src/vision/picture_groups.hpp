// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "vision/picture_dataset.hpp"

namespace lockstep::vision {

/// Groups pictures by their ratio, so that each group can be evaluated with an input that has little gray around them.
/// A picture is resized so that it just fits into the usual input, and lies in the middle of the input of its group: a
/// multiple of the stride that leaves at least a quarter of the stride free at each side. If more than `most` sizes
/// occur, shorter sides are rounded up to two strides, to three, and so on. Pictures whose size is not known belong to
/// the first group. Groups are in ascending order of height and width.
/// @param sizes  of the stored pictures; 0×0: not known
/// @param input  the usual input
/// @return no groups if no size is known
/// @source the rectangular batches of YOLOv5's validation, padded by half of a stride
std::vector<PictureGroup> groups_by_ratio(std::span<const Size> sizes, const Size& input, int stride,
                                          std::size_t most = 16);

/// Groups pictures by their size when they are resized by a factor, so that each can be evaluated as a whole. A picture
/// lies at the top left of the input of its group, whose sides are multiples of the stride, rounded up as in
/// `groups_by_ratio`; one that has the size of the usual input keeps it.
/// @throws Error{invalid_argument} for a picture that has more than 4,194,304 pixels at this scale
/// @return no groups if no size is known
std::vector<PictureGroup> groups_by_scale(std::span<const Size> sizes, double factor, const Size& input, int stride,
                                          std::size_t most = 16);

/// Groups pictures of lines of text by their width at the height of the usual input, so that wide ones are not
/// squeezed. With zeros at their ends, those that fit into the usual input have it, and others a multiple of 32 pixels;
/// otherwise all have a multiple of the height. Widths beyond 64 heights are squeezed. Widths are rounded up further as
/// in `groups_by_ratio`.
/// @return no groups if no size is known
std::vector<PictureGroup> groups_by_line(std::span<const Size> sizes, const Size& input, LineEnd end,
                                         std::size_t most = 16);

}  // namespace lockstep::vision
