// SPDX-License-Identifier: Apache-2.0
#include "workloads/detection/judgment_records.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace lockstep::workloads {
namespace {

using AreaBits = std::array<ThresholdBits, area_ranges.size()>;

std::uint64_t packed(const AreaBits& bits) {
  std::uint64_t word = 0;
  for (std::size_t area = 0; area < bits.size(); ++area)
    word |= static_cast<std::uint64_t>(bits[area]) << (area * iou_thresholds);
  return word;
}

ThresholdBits unpacked(std::int64_t word, std::size_t place) {
  return static_cast<ThresholdBits>(static_cast<std::uint64_t>(word) >> (place * iou_thresholds) & all_thresholds);
}

class RecordReader {
 public:
  explicit RecordReader(std::span<const std::int64_t> records) : rest_(records) {}

  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  PictureOfClass picture() {
    PictureOfClass result;
    result.picture = next();
    result.label = static_cast<std::int32_t>(next());
    for (std::int64_t& boxes : result.boxes) boxes = next();
    result.detections.resize(static_cast<std::size_t>(next()));
    for (Judgment& one : result.detections) one = judgment();
    return result;
  }

 private:
  std::int64_t next() {
    const std::int64_t number = rest_.front();
    rest_ = rest_.subspan(1);
    return number;
  }
  Judgment judgment() {
    Judgment result;
    result.score = std::bit_cast<double>(next());
    const std::int64_t matched = next();
    const std::int64_t ignored = next();
    for (std::size_t area = 0; area < area_ranges.size(); ++area) {
      result.matched[area] = unpacked(matched, area);
      result.ignored[area] = unpacked(ignored, area);
    }
    result.matched_by_yolov5 = unpacked(matched, area_ranges.size());
    return result;
  }

  std::span<const std::int64_t> rest_;
};

}  // namespace

void append_records(std::span<const PictureOfClass> pictures, std::vector<std::int64_t>& records) {
  for (const PictureOfClass& one : pictures) {
    records.insert(records.end(), {one.picture, one.label});
    records.insert(records.end(), one.boxes.begin(), one.boxes.end());
    records.push_back(std::ssize(one.detections));
    for (const Judgment& judgment : one.detections) {
      const std::uint64_t by_yolov5 = std::uint64_t{judgment.matched_by_yolov5}
                                      << (area_ranges.size() * iou_thresholds);
      records.insert(records.end(), {std::bit_cast<std::int64_t>(judgment.score),
                                     static_cast<std::int64_t>(packed(judgment.matched) | by_yolov5),
                                     static_cast<std::int64_t>(packed(judgment.ignored))});
    }
  }
}

std::vector<PictureOfClass> read_records(std::span<const std::int64_t> records) {
  std::vector<PictureOfClass> pictures;
  for (RecordReader reader(records); !reader.is_at_end();) pictures.push_back(reader.picture());
  const auto key = [](const PictureOfClass& one) { return std::pair(one.picture, one.label); };
  std::ranges::stable_sort(pictures, {}, key);
  const auto is_same = [&](const PictureOfClass& a, const PictureOfClass& b) { return key(a) == key(b); };
  pictures.erase(std::unique(pictures.begin(), pictures.end(), is_same), pictures.end());
  return pictures;
}

}  // namespace lockstep::workloads
