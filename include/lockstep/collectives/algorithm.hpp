#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::collectives {

enum class Operation : std::uint8_t { all_reduce, broadcast, all_gather, reduce_scatter, barrier };
std::string_view name(Operation operation);

/// How an all-reduce goes about it. The other operations have one algorithm each.
enum class Algorithm : std::uint8_t { ring, double_tree, halving_doubling, recursive_doubling };

/// "ring", "tree", "halving-doubling", "recursive-doubling".
std::string_view name(Algorithm algorithm);
/// The opposite of `name`.
/// @throws Error{invalid_argument} that suggests the nearest name and lists all
Algorithm parse_algorithm(std::string_view text);

}  // namespace lockstep::collectives
