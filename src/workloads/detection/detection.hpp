// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "vision/collate.hpp"

namespace lockstep::workloads {

/// Assigns boxes to the cells of the model `detector`: those of 4×4 pixels, row by row, then of 8×8, then of 16×16. A
/// box belongs to the cell with its middle, on the finest scale on which it is shorter than three cells, or on the
/// coarsest scale; the last one of a cell counts. Tensors, with all cells in the width: "labels", the class, or
/// left_out_label if there is no box; "objects", 1 or 0; "boxes", 4 channels: the left, top, right and bottom edge
/// relative to the middle of the cell, in cells, or zeros.
std::shared_ptr<const vision::Collate> cells();

}  // namespace lockstep::workloads
