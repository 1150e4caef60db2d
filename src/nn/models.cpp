// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models.hpp"

#include <algorithm>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "nn/models/bundled.hpp"

namespace lockstep::nn {

Models::Models() : entries_(models::bundled()) {}

void Models::add(ModelEntry entry) {
  const std::vector<std::string_view> taken = names();
  if (std::find(taken.begin(), taken.end(), entry.name) != taken.end()) {
    throw Error(ErrorCode::invalid_argument, "there is a model '" + entry.name + "' already; give yours another name");
  }
  entries_.push_back(std::move(entry));
}

std::vector<std::string_view> Models::names() const {
  std::vector<std::string_view> names;
  for (const ModelEntry& entry : entries_) names.emplace_back(entry.name);
  return names;
}

const ModelEntry& Models::at(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const ModelEntry& entry) { return entry.name == name; });
  if (found == entries_.end()) throw Error(ErrorCode::invalid_argument, unknown("model", name, names()));
  return *found;
}

const Defaults& Models::defaults(std::string_view name) const { return at(name).defaults; }

Network Models::make(std::string_view name, ops::Shape image, std::int64_t classes) const {
  return fuse_activations(at(name).make(image, classes));
}

Network make_model(std::string_view name, ops::Shape image, std::int64_t classes) {
  return Models().make(name, image, classes);
}

}  // namespace lockstep::nn
