// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "vision/codec/codec.hpp"
#include "vision/user_files.hpp"

namespace lockstep::train {

/// Pictures of three shapes, each with a bright rectangle of one of two classes, in YOLO's layout: 16 for training and
/// 7 for validation, one of them without a box.
class BoxFolder {
 public:
  BoxFolder() {
    for (const auto& [part, count] : parts)
      for (int i = 0; i < count; ++i) put(part, i);
    files_.put("data.yaml", "train: images/train\nval: images/val\nnames: [wide, high]\n");
  }
  [[nodiscard]] std::string path(const std::string& relative = "") const { return files_.path(relative).string(); }
  [[nodiscard]] std::string options(const std::string& data = "") const {
    return "--data " + path(data) + " --model yolov5n --img 64 --batch 8 --threads 1 --shards 4 ";
  }
  /// Writes the same boxes in COCO's form, with the categories 3 and 90, beside the pictures of each part.
  void put_coco() const {
    for (const auto& [part, count] : parts) {
      std::string images;
      std::string annotations;
      for (int i = 0; i < count; ++i) {
        const Drawn d = drawn(i);
        const std::string id = std::to_string(100 + i);
        images += (i == 0 ? "" : ",") + ("{\"id\":" + id) + ",\"file_name\":\"" + id +
                  ".png\",\"width\":" + std::to_string(d.columns) + ",\"height\":" + std::to_string(d.rows) + '}';
        annotations += (i == 0 ? "" : ",") + ("{\"id\":" + id) + ",\"image_id\":" + id +
                       ",\"category_id\":" + (d.is_wide ? "3" : "90") + ",\"bbox\":[" + std::to_string(d.left) + ',' +
                       std::to_string(d.top) + ',' + std::to_string(d.width) + ',' + std::to_string(d.height) +
                       "],\"area\":288,\"iscrowd\":0}";
      }
      files_.put("images/" + part + "/boxes.json",
                 "{\"images\":[" + images + "],\"annotations\":[" + annotations +
                     "],\"categories\":[{\"id\":3,\"name\":\"wide\"},{\"id\":90,\"name\":\"high\"}]}");
    }
  }

 private:
  struct Drawn {
    bool is_wide;
    int columns, rows;             ///< of the picture
    int left, top, width, height;  ///< of the box
  };
  static Drawn drawn(int i) {
    const bool is_wide = i % 2 == 0;
    return {is_wide,   i % 3 == 0 ? 40 : 60, i % 3 == 1 ? 40 : 60, 2 + i % 5,
            3 + i % 7, is_wide ? 24 : 12,    is_wide ? 12 : 24};
  }
  void put(const std::string& part, int i) const {
    const Drawn d = drawn(i);
    vision::Image picture;
    picture.resize(d.columns, d.rows, 3);
    for (int y = 0; y < d.rows; ++y)
      for (int x = 0; x < d.columns; ++x)
        for (int c = 0; c < 3; ++c)
          picture.pixels[static_cast<std::size_t>((y * d.columns + x) * 3 + c)] = static_cast<std::uint8_t>(
              x >= d.left && x < d.left + d.width && y >= d.top && y < d.top + d.height ? 230 - 20 * c
                                                                                        : 40 + (x + y + i) % 9);
    const std::vector<std::byte> file = vision::encode_png(picture);
    const std::string name = part + "/" + std::to_string(100 + i);
    files_.put("images/" + name + ".png", {reinterpret_cast<const char*>(file.data()), file.size()});
    const auto part_of = [](double value, int whole) { return std::to_string(value / whole) + ' '; };
    files_.put("labels/" + name + ".txt", i == 5
                                              ? std::string()
                                              : (d.is_wide ? "0 " : "1 ") + part_of(d.left + d.width / 2.0, d.columns) +
                                                    part_of(d.top + d.height / 2.0, d.rows) +
                                                    part_of(d.width, d.columns) + part_of(d.height, d.rows) + "\n");
  }
  inline static const std::vector<std::pair<std::string, int>> parts = {{"train", 16}, {"val", 7}};
  vision::UserFiles files_;
};

}  // namespace lockstep::train
