// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/datasets.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/fingerprint.hpp"
#include "data/signals.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::data {
namespace {

std::string refusal(const Datasets& datasets, const std::string& name) {
  try {
    (void)datasets.load(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "";
}

TEST(Datasets, OneOfSomebodyElsesIsAdded) {
  Datasets datasets;
  DatasetOptions seen;
  datasets.add({"signals", [&seen](const DatasetOptions& options) -> DatasetPair {
                  seen = options;
                  return {std::make_shared<Signals>(23), std::make_shared<Signals>(5)};
                }});
  EXPECT_EQ(datasets.names().back(), "signals");
  EXPECT_EQ(datasets.names().size(), 1U);
  const DatasetPair pair = datasets.load("signals", {.data_dir = "/somewhere", .seed = 7});
  EXPECT_EQ(pair.train->size(), 23);
  EXPECT_EQ(pair.test->size(), 5);
  EXPECT_EQ(seen.data_dir, "/somewhere");
  EXPECT_EQ(seen.seed, 7U);
  EXPECT_EQ(refusal(datasets, "signal"), "there is no data set 'signal'; did you mean 'signals'? There are signals");
}

TEST(Datasets, ANameIsTakenOnce) {
  Datasets datasets;
  const auto load = [](const DatasetOptions&) { return DatasetPair{}; };
  datasets.add({"signals", load});
  expect_error(
      [&] {
        datasets.add({"signals", load});
      },
      ErrorCode::invalid_argument, {"there is a data set 'signals' already; give yours another name"});
  EXPECT_EQ(datasets.names().size(), 1U);
}

TEST(Datasets, WhatALoaderThrowsIsThrown) {
  Datasets datasets;
  datasets.add({"failing", [](const DatasetOptions&) -> DatasetPair { throw Error(ErrorCode::device, "no camera"); }});
  datasets.add({"foreign", [](const DatasetOptions&) -> DatasetPair { throw std::out_of_range("not lockstep's"); }});
  expect_error([&] { (void)datasets.load("failing"); }, ErrorCode::device, {"no camera"});
  EXPECT_THROW((void)datasets.load("foreign"), std::out_of_range);
  expect_error([&] { (void)datasets.directory("failling"); }, ErrorCode::invalid_argument,
               {"'failling'", "did you mean 'failing'", "foreign"});
}

TEST(Datasets, OneThatCannotBeLoadedIsRefused) {
  Datasets datasets;
  expect_error(
      [&] {
        datasets.add({"signals", nullptr});
      },
      ErrorCode::invalid_argument, {"the data set 'signals' cannot be loaded"});
}

/// A data set of two well-formed parts, which tests make invalid; expects that it is then refused.
class IllFormed : public testing::Test {
 protected:
  void expect_refused(const std::string& message) const {
    Datasets datasets;
    datasets.add({"mine", [this](const DatasetOptions&) -> DatasetPair { return {train_, test_}; }});
    EXPECT_EQ(refusal(datasets, "mine"), R"(the data set "mine" )" + message);
  }

  std::shared_ptr<Signals> train_ = std::make_shared<Signals>(23);
  std::shared_ptr<Signals> test_ = std::make_shared<Signals>(5);
};

TEST_F(IllFormed, OnePartIsMissing) {
  test_ = nullptr;
  expect_refused("was loaded without its test part; it needs both");
  train_ = nullptr;
  expect_refused("was loaded without its training part; it needs both");
}

TEST_F(IllFormed, NoSamples) {
  test_ = std::make_shared<Signals>(0);
  expect_refused("has 0 test samples; it needs at least one");
  train_ = std::make_shared<Signals>(-1);
  expect_refused("has -1 training samples; it needs at least one");
}

TEST_F(IllFormed, TensorsOfBadNames) {
  train_->specs[2].name = "signal";
  expect_refused(R"(has two tensors "signal"; give each a name of its own)");
  train_->specs[2].name = "";
  expect_refused("has a tensor of the empty name; give it another");
}

TEST_F(IllFormed, TensorsOfNothing) {
  train_->specs[0].extent = {1, 0, 7};
  expect_refused(R"(has a tensor "signal" of 1×0×7; each extent must be at least 1)");
  train_->specs.clear();
  expect_refused("has no tensors; it needs at least one");
}

TEST_F(IllFormed, PartsThatDiffer) {
  test_->class_count = 4;
  expect_refused("has 3 classes in training but 4 in test; they must be the same");
  test_->specs.pop_back();
  test_->specs[0].extent[2] = 8;
  expect_refused(
      "has other tensors in training (signal 1×1×7 real, targets 2×1×1 real, labels 1×1×1 integer) than in test "
      "(signal 1×1×8 real, targets 2×1×1 real); they must be the same, in the same order");
  train_->class_count = -1;
  expect_refused("has -1 training classes; say 0 where there are no labels");
}

/// Signals with bytes.
class ByteSignals : public Signals {
 public:
  explicit ByteSignals(Normalization numbers, std::size_t tensor = 0)
      : Signals(4), numbers_(std::move(numbers)), tensor_(tensor) {}
  [[nodiscard]] const Normalization* bytes_of(std::size_t tensor) const override {
    return tensor == tensor_ ? &numbers_ : nullptr;
  }

 private:
  Normalization numbers_;
  std::size_t tensor_;
};

TEST(BytesOfDataSets, StandForTheSameNumbersInBothParts) {
  const auto load = [](const std::shared_ptr<const Dataset>& train, const std::shared_ptr<const Dataset>& test) {
    Datasets datasets;
    datasets.add({.name = "own", .load = [&](const DatasetOptions&) { return DatasetPair{train, test}; }});
    (void)datasets.load("own");
  };
  const auto one = std::make_shared<ByteSignals>(Normalization{{0.5}, {2}});
  EXPECT_NO_THROW(load(one, std::make_shared<ByteSignals>(Normalization{{0.5}, {2}})));
  const std::string differ = "has bytes that stand for other numbers in training than in test";
  expect_error(
      [&] {
        load(one, std::make_shared<ByteSignals>(Normalization{{0.5}, {1}}));
      },
      ErrorCode::invalid_argument, {differ});
  expect_error([&] { load(one, std::make_shared<Signals>(4)); }, ErrorCode::invalid_argument, {differ});
  const auto wrong = std::make_shared<ByteSignals>(Normalization{{0.5, 1}, {2}});
  expect_error([&] { load(wrong, wrong); }, ErrorCode::invalid_argument,
               {R"(has 2 means and 1 deviations for the bytes of its tensor "signal" of 1 channels)"});
  const auto integers = std::make_shared<ByteSignals>(Normalization{{0.5}, {2}}, 2);
  expect_error([&] { load(integers, integers); }, ErrorCode::invalid_argument,
               {R"(has integers in its tensor "labels")"});
}

/// A data set of numbers, one of which may differ.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t odd = -1) : odd_(odd) {}
  [[nodiscard]] std::string name() const override { return "numbers"; }
  [[nodiscard]] std::vector<TensorSpec> tensors() const override {
    return {{"reals", {1, 1, 3}}, {"labels", {1, 1, 1}, Content::integer}};
  }
  [[nodiscard]] std::int64_t size() const override { return 1000; }
  [[nodiscard]] std::int64_t classes() const override { return 1000; }
  void read(const SampleKey& key, std::span<const Buffer> tensors) const override {
    for (std::size_t j = 0; j < 3; ++j) static_cast<float*>(tensors[0].data)[j] = static_cast<float>(key.index);
    *static_cast<std::int32_t*>(tensors[1].data) = static_cast<std::int32_t>(key.index) + (key.index == odd_ ? 1 : 0);
  }

 private:
  std::int64_t odd_;
};

TEST(Fingerprint, IsOfEveryElementOfATensor) {
  const auto all = fingerprint(Numbers(), 1000);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].first, "reals");
  EXPECT_EQ(all[1].first, "labels");
  EXPECT_EQ(fingerprint(Numbers(), 5000), all);
  for (std::int64_t odd = 0; odd < 1000; ++odd) {
    const auto other = fingerprint(Numbers(odd), 1000);
    EXPECT_EQ(other[0].second, all[0].second);
    EXPECT_NE(other[1].second, all[1].second) << odd;
  }
}

TEST(Fingerprint, OfManySamplesIsThatOfSomeOfThem) {
  const auto ten = fingerprint(Numbers(), 10);
  EXPECT_NE(ten, fingerprint(Numbers(), 1000));
  EXPECT_EQ(ten, fingerprint(Numbers(150), 10));
  EXPECT_NE(ten, fingerprint(Numbers(900), 10));
}

}  // namespace
}  // namespace lockstep::data
