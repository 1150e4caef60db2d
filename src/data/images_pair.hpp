// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/images.hpp"

namespace lockstep::data {

/// What is trained on, and what is only evaluated, before they become data sets. Same shape and number of classes.
struct ImagesPair {
  Images train;
  Images test;
};

}  // namespace lockstep::data
