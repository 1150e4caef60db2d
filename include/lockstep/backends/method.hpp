// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "lockstep/collectives/choice/selection.hpp"

namespace lockstep::backends {

/// The MPI library's own collectives, however it does them.
struct MpiLibrary {
  friend bool operator==(const MpiLibrary&, const MpiLibrary&) = default;
};

/// What runs the operations of a communicator between processors: plans, by a selection, or the MPI library.
using Method = std::variant<collectives::Selection, MpiLibrary>;

/// What a user can name: "auto" for the best known at each size, the algorithms of plans, and "mpi" for the MPI
/// library.
std::span<const std::string_view> method_names();
/// A program calls it once, where it reads its command line.
/// @throws Error{invalid_argument} for an unknown name, with the nearest one
Method parse_method(std::string_view name);
/// The opposite of parse_method.
std::string_view name(const Method& method);

/// The selection that plans go by; null for the MPI library. Valid as long as the method.
inline const collectives::Selection* selection_of(const Method& method) {
  return std::get_if<collectives::Selection>(&method);
}

}  // namespace lockstep::backends
