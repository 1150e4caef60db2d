// SPDX-License-Identifier: Apache-2.0
// list_boxes DATA [FORMAT [VAL]]: prints the survey on the error stream, and then the classes and each sample of each
// part with its boxes, a line of JSON each.
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "vision/formats/sources.hpp"

namespace {

using lockstep::vision::Annotation;
using lockstep::vision::Box;
using lockstep::vision::Source;
using Json = nlohmann::ordered_json;

void print_line(const Json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

void print_boxes(const char* part, const Source& source) {
  print_line({{"part", part}, {"classes", source.class_names()}, {"category_ids", source.category_ids()}});
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const Annotation& annotation = source.annotation(i);
    Json boxes = Json::array();
    for (const Box& box : annotation.boxes)
      boxes.push_back({{"label", box.label},
                       {"edges", {box.left, box.top, box.right, box.bottom}},
                       {"area", area_of(box)},
                       {"crowd", box.is_crowd},
                       {"difficult", box.is_difficult}});
    Json line = {{"part", part},
                 {"path", source.place(i)},
                 {"size", {annotation.width, annotation.height}},
                 {"boxes", std::move(boxes)}};
    if (annotation.image_id) line["image_id"] = *annotation.image_id;
    print_line(line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    const auto sources = lockstep::vision::open_sources(
        {.data = argv[1], .format = argc > 2 ? argv[2] : "", .val = argc > 3 ? argv[3] : ""});
    std::fputs(text_of(sources.survey).c_str(), stderr);
    if (sources.train) print_boxes("train", *sources.train);
    if (sources.val) print_boxes("val", *sources.val);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
