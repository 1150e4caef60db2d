// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "vision/image/image.hpp"

namespace lockstep::vision {

/// Writes the channels of a picture one behind the other.
/// @param planes  channels × height × width
void write_planes(const Image& picture, std::uint8_t* planes);

/// Writes the number that each byte stands for.
/// @param table  channels × 256
void write_planes(const Image& picture, const float* table, float* planes);
void write_planes(const Image& picture, const double* table, double* planes);

/// Writes the picture of a line of text: the channels in reverse order, and zeros in the columns beyond the picture.
/// @param width   of the planes, at least that of the picture
/// @param planes  channels × height × width
void write_line_planes(const Image& picture, int width, const float* table, float* planes);
void write_line_planes(const Image& picture, int width, const double* table, double* planes);

}  // namespace lockstep::vision
