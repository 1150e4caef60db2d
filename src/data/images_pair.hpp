// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/images.hpp"

namespace lockstep::data {

/// The training images and the test images, before they become data sets. Both have the same shape and number of
/// classes.
struct ImagesPair {
  Images train;
  Images test;
};

}  // namespace lockstep::data
