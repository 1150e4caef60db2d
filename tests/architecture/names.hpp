// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::architecture {

/// A class, struct or enumeration that a source defines.
struct TypeDefinition {
  std::string name;
  int line = 0;
  bool is_nested = false;   ///< whether it is inside another type
  bool is_private = false;  ///< whether it is in a private or protected section of a type
};

/// Returns the types that a C++ source defines, in their order; forward declarations and members of other types that
/// are defined outside of them (`struct Trainer::State { … }`) do not count. The source is formatted by clang-format.
std::vector<TypeDefinition> type_definitions(std::string_view source);

/// Returns the full names of the namespaces that a C++ source opens, without the unnamed one. The source is formatted
/// by clang-format, so that a comment closes each.
std::vector<std::string> namespaces(std::string_view source);

/// Returns whether the file may open the namespace. The top folder is the namespace: src/X and include/lockstep/X are
/// lockstep::X, kernels is lockstep::kernels, and apps/x-y is lockstep::x_y. Inner namespaces are allowed. The public
/// facade (base, comm, ddp, platform, and the headers directly in include/lockstep) is in lockstep itself, and may have
/// inner namespaces that are not named after another folder.
/// @param path     relative to the repository
/// @param folders  names of all top folders as namespaces
bool may_open(std::string_view path, std::string_view name, const std::vector<std::string>& folders);
/// Returns the top folder of a path as a name of a namespace: "comm_bench" for apps/comm-bench/main.cpp.
std::string top_folder(std::string_view path);

}  // namespace lockstep::architecture
