// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "workloads/picture_task.hpp"

namespace lockstep::workloads {

/// Reading the texts in users' pictures of lines. Networks of PaddleOCR's kind have an input of 32×100 pixels in color,
/// which lines get as `vision::LineEnd::zeros` says; those for gray pictures have 64×256 as EasyOCR's, with
/// `LineEnd::last_column`, as all inputs of 64 rows. Evaluations and predictions group lines by width
/// (`vision::groups_by_line`), and steps of many scales differ in width only.
PictureTask text();

/// The transforms for lines of text: those of `augment`, none if it is empty, and then `vision::fit_line`.
/// @throws Error{invalid_argument} as vision::parse_transforms, and for transforms that mirror, combine or resize lines
vision::Pipelines text_pipelines(std::string_view augment, const vision::Size& input, bool are_equal);

}  // namespace lockstep::workloads
