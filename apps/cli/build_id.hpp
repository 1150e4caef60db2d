// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lockstep::cli {

/// Returns the description of the GNU build ID among the notes of a program, as hexadecimal digits; empty if there is
/// none.
/// @param notes  a segment of notes (PT_NOTE)
std::string build_id_of_notes(std::span<const std::byte> notes);

/// Returns a text that differs between two builds: the commit, and the GNU build IDs of this program and of lockstep's
/// shared libraries, if there are any. A program that was linked without a build ID is read and hashed instead.
std::string build_id();

}  // namespace lockstep::cli
