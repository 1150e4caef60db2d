// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "collectives/choice/selection.hpp"

namespace lockstep::backends {

/// Selects the MPI library's own collectives.
struct MpiLibrary {
  friend bool operator==(const MpiLibrary&, const MpiLibrary&) = default;
};

/// What runs the operations of a communicator between processes: plans with a selection, or the MPI library.
using Method = std::variant<collectives::Selection, MpiLibrary>;

/// All names of methods: "auto" for the best known algorithm at each size, the algorithms of plans, and "mpi" for the
/// MPI library.
std::span<const std::string_view> method_names();
/// Parses the name of a method, for command lines.
/// @throws Error{invalid_argument} for an unknown name, with the nearest one
Method parse_method(std::string_view name);
/// The inverse of parse_method.
std::string_view name(const Method& method);

/// The selection of a method with plans; null for the MPI library. It is valid as long as the method.
inline const collectives::Selection* selection_of(const Method& method) {
  return std::get_if<collectives::Selection>(&method);
}

}  // namespace lockstep::backends
