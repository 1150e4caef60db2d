// SPDX-License-Identifier: Apache-2.0
#include "workloads/data_sets.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/augment.hpp"
#include "support/errors.hpp"

namespace lockstep::workloads {
namespace {

data::Datasets with_all() {
  data::Datasets datasets;
  for (data::DatasetEntry& entry : data_sets()) datasets.add(std::move(entry));
  return datasets;
}

std::string refusal(const std::string& name) {
  try {
    (void)with_all().load(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "";
}

TEST(DataSets, UnknownNameGetsTheNearestOne) {
  const std::string all =
      "? There are mnist, cifar10, synthetic-digits, synthetic-cifar, synthetic-imagenet, synthetic-boxes, "
      "synthetic-masks, synthetic-words";
  EXPECT_EQ(refusal("mnits"), "there is no data set 'mnits'; did you mean 'mnist'" + all);
  EXPECT_EQ(refusal("sintetic-digits"),
            "there is no data set 'sintetic-digits'; did you mean 'synthetic-digits'" + all);
}

TEST(DataSets, OfFilesNeedAFolder) {
  for (const char* name : {"mnist", "cifar10"})
    EXPECT_NE(refusal(name).find("give the folder that holds"), std::string::npos) << name;
}

TEST(DataSets, ThatAreDrawnNeedNothing) {
  const data::Datasets datasets = with_all();
  for (const std::string_view name : datasets.names()) {
    if (datasets.directory(name) == data::Directory::required) continue;
    if (name == "synthetic-imagenet") continue;  // takes seconds to draw; synthetic_test.cpp draws a smaller one
    const data::DatasetPair pair = datasets.load(name);
    EXPECT_EQ(pair.train->name(), name);
    EXPECT_EQ(pair.test->name(), name);
    const bool images_only = name == "synthetic-digits" || name == "synthetic-cifar";
    EXPECT_EQ(pair.train->size(), images_only ? 12'000 : 4'000);
    EXPECT_EQ(pair.test->size(), images_only ? 2'000 : 500);
    EXPECT_EQ(pair.train->tensors().front().name, "images");
    EXPECT_EQ(static_cast<std::int64_t>(pair.train->class_names().size()), pair.train->classes());
  }
}

TEST(DataSets, ThatAreDrawnDependOnTheSeed) {
  const data::Datasets datasets = with_all();
  const auto first_elements = [&](std::uint64_t seed) {
    const data::DatasetPair pair = datasets.load("synthetic-digits", {.data_dir = {}, .seed = seed});
    std::vector<float> images(28 * 28);
    std::vector<std::int32_t> labels(1);
    pair.train->read({.index = 0}, std::vector<Buffer>{std::span(images), std::span(labels)});
    return images;
  };
  EXPECT_EQ(first_elements(1), first_elements(1));
  EXPECT_NE(first_elements(1), first_elements(2));
}

TEST(DataSets, WhoseTargetsWouldNoLongerFitAreNotAugmented) {
  const data::Datasets datasets = with_all();
  for (const auto& [name, tensor] : {std::pair("synthetic-masks", "labels"), std::pair("synthetic-boxes", "labels"),
                                     std::pair("synthetic-words", "targets")}) {
    const data::DatasetPair pair = datasets.load(name);
    expect_error([&] { (void)data::augmented(pair.train, {.flip = true}); }, ErrorCode::invalid_argument,
                 {std::string("\"") + name + "\" has a tensor \"" + tensor + "\"", "augmented by flip"});
  }
}

}  // namespace
}  // namespace lockstep::workloads
