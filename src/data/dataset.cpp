// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/dataset.hpp"

#include <array>

#include "base/nearest.hpp"
#include "data/idx.hpp"
#include "data/synthetic.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

constexpr std::array<std::string_view, 3> names = {"mnist", "synthetic-digits", "synthetic-cifar"};

}  // namespace

std::span<const std::string_view> dataset_names() { return names; }

DatasetPair load_dataset(const DatasetOptions& options) {
  if (options.name == "mnist") return load_mnist(options.data_dir);
  if (options.name == "synthetic-digits") return synthetic_digits({.seed = options.seed});
  if (options.name == "synthetic-cifar") return synthetic_cifar({.seed = options.seed});
  throw Error(ErrorCode::invalid_argument, unknown("data set", options.name, names));
}

}  // namespace lockstep::data
