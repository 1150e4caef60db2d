// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/layout.hpp"

#include <gtest/gtest.h>

#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep {
namespace {

TEST(Layout, TensorsStartAtAlignedOffsets) {
  Layout layout;
  EXPECT_EQ(layout.add("a", {3, 5}), 0);
  EXPECT_EQ(layout.add("b", {}), 1);
  EXPECT_EQ(layout.add("c", {16}), 2);
  EXPECT_EQ(layout.at(0).count, Count{15});
  EXPECT_EQ(layout.at(1).offset, Count{16});
  EXPECT_EQ(layout.at(1).count, Count{1});
  EXPECT_EQ(layout.find("c").offset, Count{32});
  EXPECT_EQ(layout.count(), Count{48});
}

TEST(Layout, RefusesWhatCannotBe) {
  Layout layout;
  layout.add("a", {1});
  EXPECT_EQ(code_of([&] { (void)layout.add("a", {2}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)layout.add("b", {2, -1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)layout.find("z"); }), ErrorCode::invalid_argument);
  const std::int64_t many = std::int64_t{1} << 31;
  EXPECT_EQ(code_of([&] { (void)layout.add("b", {many, many, many}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] {
              (void)layout.add("b", {many, many / 4});
            }),
            ErrorCode::invalid_argument)
      << "more bytes than can be counted, in float64";
  EXPECT_EQ(layout.at(layout.add("b", {many, many, many, 0})).count, Count{0});
}

TEST(Layout, HashTellsModelsApart) {
  const auto hash_of = [](const char* name, std::vector<std::int64_t> shape) {
    Layout layout;
    layout.add(name, std::move(shape));
    return layout.hash();
  };
  EXPECT_EQ(hash_of("w", {2, 3}), hash_of("w", {2, 3}));
  EXPECT_NE(hash_of("w", {2, 3}), hash_of("w", {3, 2}));
  EXPECT_NE(hash_of("w", {2, 3}), hash_of("v", {2, 3}));
}

}  // namespace
}  // namespace lockstep
