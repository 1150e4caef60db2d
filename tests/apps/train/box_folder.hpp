// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vision/codec/codec.hpp"
#include "vision/user_files.hpp"

namespace lockstep::train {

/// Pictures of three shapes, each with a bright rectangle of one of two classes, in YOLO's layout: 16 for training and
/// 7 for validation, one of them without a box.
class BoxFolder {
 public:
  BoxFolder() {
    for (int i = 0; i < 16; ++i) put("train", i);
    for (int i = 0; i < 7; ++i) put("val", i);
    files_.put("data.yaml", "train: images/train\nval: images/val\nnames: [wide, high]\n");
  }
  [[nodiscard]] std::string path(const std::string& relative = "") const { return files_.path(relative).string(); }
  [[nodiscard]] std::string options() const {
    return "--data " + path() + " --model yolov5n --img 64 --batch 8 --epochs 2 --threads 1 --shards 4 ";
  }

 private:
  void put(const std::string& part, int i) const {
    const bool is_wide = i % 2 == 0;
    vision::Image picture;
    picture.resize(i % 3 == 0 ? 40 : 60, i % 3 == 1 ? 40 : 60, 3);
    const int width = is_wide ? 24 : 12;
    const int height = is_wide ? 12 : 24;
    const int left = 2 + i % 5;
    const int top = 3 + i % 7;
    for (int y = 0; y < picture.height; ++y)
      for (int x = 0; x < picture.width; ++x)
        for (int c = 0; c < 3; ++c)
          picture.pixels[static_cast<std::size_t>((y * picture.width + x) * 3 + c)] = static_cast<std::uint8_t>(
              x >= left && x < left + width && y >= top && y < top + height ? 230 - 20 * c : 40 + (x + y + i) % 9);
    const std::vector<std::byte> file = vision::encode_png(picture);
    const std::string name = part + "/" + std::to_string(100 + i);
    files_.put("images/" + name + ".png", {reinterpret_cast<const char*>(file.data()), file.size()});
    const auto part_of = [](double value, int whole) { return std::to_string(value / whole) + ' '; };
    files_.put("labels/" + name + ".txt",
               i == 5 ? std::string()
                      : (is_wide ? "0 " : "1 ") + part_of(left + width / 2.0, picture.width) +
                            part_of(top + height / 2.0, picture.height) + part_of(width, picture.width) +
                            part_of(height, picture.height) + "\n");
  }
  vision::UserFiles files_;
};

}  // namespace lockstep::train
