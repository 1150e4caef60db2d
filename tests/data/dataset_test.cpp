// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/dataset.hpp"

#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::data {
namespace {

std::string refusal(const std::string& name) {
  try {
    (void)load_dataset({.name = name});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "";
}

TEST(Dataset, UnknownNameGetsTheNearestOne) {
  EXPECT_EQ(refusal("mnits"),
            "there is no data set 'mnits'; did you mean 'mnist'? There are mnist, synthetic-digits, synthetic-cifar");
  EXPECT_EQ(refusal("sintetic-digits"),
            "there is no data set 'sintetic-digits'; did you mean 'synthetic-digits'? There are mnist, "
            "synthetic-digits, synthetic-cifar");
}

TEST(Dataset, MnistNeedsAFolder) { EXPECT_NE(refusal("mnist").find("give the folder that holds"), std::string::npos); }

TEST(Dataset, EveryOtherNameNeedsNothing) {
  for (const std::string_view name : dataset_names()) {
    if (name == "mnist") continue;
    const DatasetPair pair = load_dataset({.name = std::string(name)});
    EXPECT_EQ(pair.train.name, name);
    EXPECT_EQ(pair.train.size(), 12'000);
    EXPECT_EQ(pair.test.size(), 2'000);
  }
}

}  // namespace
}  // namespace lockstep::data
