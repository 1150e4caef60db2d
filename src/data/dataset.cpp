// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/dataset.hpp"

#include <array>

#include "lockstep/base/error.hpp"
#include "lockstep/base/nearest.hpp"
#include "lockstep/data/idx.hpp"
#include "lockstep/data/synthetic.hpp"

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
