// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "vision/image/draw.hpp"
#include "vision/image/image.hpp"
#include "vision/picture_dataset.hpp"

namespace lockstep::vision {

/// A line of text below a picture.
struct Caption {
  std::string text;
  Color color = {};  ///< behind the text
};

/// Draws what the network sees of these samples: the pictures behind all transforms, before they are normalized, with
/// their boxes, and the class or the text below each. Small pictures are enlarged by whole factors, so that the text
/// fits.
/// @param captions  what stands below each picture instead of its class; empty: the class
/// @return a sheet with about as many rows as columns
/// @throws as PictureDataset::read
Image batch_sheet(const PictureDataset& dataset, std::span<const data::SampleKey> keys,
                  std::span<const Caption> captions = {});

/// Enlarges a picture by a whole factor, of at most 16, until the text fits below it.
Image with_caption(const Image& picture, const Caption& caption);

/// Writes a picture as a PNG file. @param palette  as of encode_png()
/// @throws Error{unsupported} without libspng; Error{io} that names the file and why
void write_png(const Image& picture, const std::filesystem::path& file, const Palette* palette = nullptr);

}  // namespace lockstep::vision
