// SPDX-License-Identifier: Apache-2.0
#include "backends/method.hpp"

#include <algorithm>
#include <vector>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

constexpr std::string_view automatic = "auto";
constexpr std::string_view mpi = "mpi";

}  // namespace

std::span<const std::string_view> method_names() {
  static const auto names = [] {
    const auto own = collectives::algorithm_names();
    std::vector<std::string_view> all{automatic};
    all.insert(all.end(), own.begin(), own.end());
    all.push_back(mpi);
    return all;
  }();
  return names;
}

Method parse_method(std::string_view name) {
  const std::span<const std::string_view> names = method_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw Error(ErrorCode::invalid_argument, unknown("algorithm", name, names));
  if (name == mpi) return MpiLibrary{};
  if (name == automatic) return collectives::Selection{};
  return collectives::forced({.algorithm = collectives::parse_algorithm(name)});
}

std::string_view name(const Method& method) {
  const collectives::Selection* selection = selection_of(method);
  if (selection == nullptr) return mpi;
  return selection->forced ? name(selection->forced->algorithm) : automatic;
}

}  // namespace lockstep::backends
