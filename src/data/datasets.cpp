// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/datasets.hpp"

#include <algorithm>
#include <new>

#include "base/nearest.hpp"
#include "data/check.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

void Datasets::add(DatasetEntry entry) {
  const std::vector<std::string_view> taken = names();
  if (std::find(taken.begin(), taken.end(), entry.name) != taken.end())
    throw Error(ErrorCode::invalid_argument,
                "there is a data set '" + entry.name + "' already; give yours another name");
  if (!entry.load)
    throw Error(ErrorCode::invalid_argument,
                "the data set '" + entry.name + "' cannot be loaded; give it a function 'load'");
  entries_.push_back(std::move(entry));
}

std::vector<std::string_view> Datasets::names() const {
  std::vector<std::string_view> names;
  for (const DatasetEntry& entry : entries_) names.emplace_back(entry.name);
  return names;
}

const DatasetEntry& Datasets::at(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const DatasetEntry& entry) { return entry.name == name; });
  if (found == entries_.end()) throw Error(ErrorCode::invalid_argument, unknown("data set", name, names()));
  return *found;
}

Directory Datasets::directory(std::string_view name) const { return at(name).directory; }

DatasetPair Datasets::load(std::string_view name, const DatasetOptions& options) const {
  try {
    DatasetPair pair = at(name).load(options);
    check_pair(name, pair);
    return pair;
  } catch (const std::bad_alloc&) {
    const std::string place = options.data_dir.empty() ? "" : " in " + options.data_dir.string();
    throw Error(ErrorCode::io, "the data set '" + std::string(name) + "'" + place +
                                   " does not fit into memory; take a smaller one, or start fewer ranks on each host");
  }
}

}  // namespace lockstep::data
