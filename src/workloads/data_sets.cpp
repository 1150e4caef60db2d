// SPDX-License-Identifier: Apache-2.0
#include "workloads/data_sets.hpp"

#include <string>
#include <utility>

#include "vision/formats/sources.hpp"
#include "vision/synthetic/synthetic.hpp"
#include "vision/whole_pictures.hpp"
#include "workloads/detection/detection.hpp"
#include "workloads/segmentation/segmentation.hpp"
#include "workloads/text/text.hpp"

namespace lockstep::workloads {
namespace {

using vision::SyntheticOptions;

/// A data set that is drawn. @param size  with the number of samples
data::DatasetEntry drawn(std::string name, vision::SourcePair (*draw)(const SyntheticOptions&), SyntheticOptions size,
                         std::shared_ptr<const vision::Collate> collate) {
  return {.name = std::move(name),
          .load =
              [draw, size, collate = std::move(collate)](const data::DatasetOptions& options) {
                SyntheticOptions of_run = size;
                of_run.seed = options.seed;
                return vision::whole_pictures(draw(of_run), collate);
              },
          .directory = data::Directory::none};
}

/// A data set that is read from files of a format of --data.
data::DatasetEntry from_files(const char* format) {
  return {.name = format,
          .load =
              [format](const data::DatasetOptions& options) {
                return vision::whole_pictures(vision::open_format(format, options.data_dir));
              },
          .directory = data::Directory::required};
}

}  // namespace

std::vector<data::DatasetEntry> data_sets() {
  const auto labels = std::make_shared<vision::LabelCollate>();
  const SyntheticOptions few{.train = {4'000}, .test = {500}};  // these take longer to learn than whole images
  const Characters digits{.alphabet = "0123456789", .longest = 5};
  return {from_files("mnist"),
          from_files("cifar10"),
          drawn("synthetic-digits", vision::synthetic_digits, {}, labels),
          drawn("synthetic-cifar", vision::synthetic_cifar, {}, labels),
          drawn("synthetic-imagenet", vision::synthetic_imagenet, {.train = {1'024}, .test = {128}}, labels),
          drawn("synthetic-boxes", vision::synthetic_boxes, few, cells()),
          drawn("synthetic-masks", vision::synthetic_masks, few, pixel_labels()),
          drawn("synthetic-words", vision::synthetic_words, few, sequences(digits))};
}

}  // namespace lockstep::workloads
