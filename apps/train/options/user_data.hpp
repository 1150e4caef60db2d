// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/types.hpp"
#include "vision/cache/make_picture_cache.hpp"
#include "vision/formats/sources.hpp"
#include "vision/source/bad_samples.hpp"
#include "vision/transforms/transforms.hpp"

namespace lockstep::train {

/// The range of the sizes of training steps, as parts of the input's.
struct Scales {
  double least = 0;
  double most = 0;  ///< 0: all steps have the size of the input
};

/// The user's own pictures, which --data names in place of a data set of --dataset.
struct UserData {
  std::string path;           ///< a folder or a file; empty: --dataset counts
  std::string format;         ///< one of vision::format_names(); empty: recognized
  std::string val;            ///< the validation part; empty: as the layout says
  double val_split = 0;       ///< this fraction of the training samples becomes the validation part
  vision::Size size;          ///< of the network's input; 0×0: by the pictures
  double eval_scale = 0;      ///< evaluations resize pictures by this factor; 0: as the model was trained, or not
  int eval_tiles = 0;         ///< evaluations divide pictures into tiles of this side; 0: they do not
  Scales scales;              ///< of the sizes that training steps have
  std::string augment;        ///< transforms for training; empty: the usual ones
  vision::TextOptions texts;  ///< of the texts in the pictures
  std::string show_batch;     ///< file that gets a sheet of the first batch, instead of a training; empty: none
  vision::OnBadSample on_bad_sample = vision::OnBadSample::stop;
  vision::CacheKind cache = vision::CacheKind::ram;
  Bytes most_cached{0};  ///< on a node; 0: a quarter of its free memory, or of the disk's space
};

}  // namespace lockstep::train
