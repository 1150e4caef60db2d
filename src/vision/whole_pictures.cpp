// SPDX-License-Identifier: Apache-2.0
#include "vision/whole_pictures.hpp"

#include "vision/picture_dataset.hpp"
#include "vision/picture_defaults.hpp"

namespace lockstep::vision {

data::DatasetPair whole_pictures(const SourcePair& sources, const std::shared_ptr<const Collate>& collate) {
  const Image first = first_picture(*sources.train);
  const PictureOptions options{.name = sources.train->format(),
                               .channels = first.channels,
                               .input = {.width = first.width, .height = first.height},
                               .normalization = default_normalization(*sources.train, first.channels),
                               .collate = collate};
  return {std::make_shared<PictureDataset>(sources.train, options),
          std::make_shared<PictureDataset>(sources.val, options)};
}

}  // namespace lockstep::vision
