// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "vision/source/source.hpp"
#include "vision/source/survey.hpp"

namespace lockstep::vision {

/// How a box lies in its picture.
enum class BoxFit : std::uint8_t { inside, reaches_out, outside, without_area };

/// Compares a box with its picture. A box may reach out by a pixel, because corners are rounded and counted from 0 and
/// from 1. Without the size of the picture, every box with an area is inside.
BoxFit fit_of(const Box& box, const Annotation& picture);

/// Decides whether a box is kept, and notes why not: boxes without area and boxes outside of their picture are left
/// out, and boxes that reach beyond it are kept as they are annotated.
/// @param where  returns the place of the annotation; called only where there is something to note
template <typename Where>
bool keeps(const Box& box, const Annotation& picture, PartNotes& notes, const Where& where) {
  switch (fit_of(box, picture)) {
    case BoxFit::without_area: notes.degenerate_boxes.add(where()); return false;
    case BoxFit::outside: notes.lost_boxes.add(where()); return false;
    case BoxFit::reaches_out: notes.wide_boxes.add(where()); return true;
    case BoxFit::inside: break;
  }
  return true;
}

}  // namespace lockstep::vision
