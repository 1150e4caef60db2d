// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/data_yaml.hpp"

#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

DataYaml parse_yaml(const std::string& text) { return parse_data_yaml(text, "data.yaml"); }
void expect_bad_yaml(const std::string& text, const std::vector<std::string>& parts) {
  expect_error([&] { (void)parse_yaml(text); }, ErrorCode::corrupt, parts);
}

TEST(DataYamlFile, IsReadInItsUsualForms) {
  const DataYaml map = parse_yaml(
      "# COCO128\npath: ../datasets/coco128  # root\ntrain: images/train2017\nval: images/train2017\ntest:  # "
      "optional\n"
      "names:\n  0: person\n  1: bicycle\n  2: no\ndownload: https://example.org/coco128.zip\n");
  EXPECT_EQ(map.path, "../datasets/coco128");
  EXPECT_EQ(map.train, (Names{"images/train2017"}));
  EXPECT_EQ(map.val, (Names{"images/train2017"}));
  EXPECT_TRUE(map.test.empty());
  EXPECT_EQ(map.names, (Names{"person", "bicycle", "no"})) << "a name is what stands in the file";
  const DataYaml list = parse_yaml(
      "train: [a/images, b.txt]\nval:\n- c\n- d\ntest: ../test/images\n\nnc: 2\nnames: ['RBC', \"red panda\"]\n"
      "roboflow:\n  license: CC\n");
  EXPECT_EQ(list.path, "");
  EXPECT_EQ(list.train, (Names{"a/images", "b.txt"}));
  EXPECT_EQ(list.val, (Names{"c", "d"}));
  EXPECT_EQ(list.test, (Names{"../test/images"}));
  EXPECT_EQ(list.names, (Names{"RBC", "red panda"}));
  EXPECT_EQ(parse_yaml("names: {1: b, 0: a}").names, (Names{"a", "b"}));
  EXPECT_EQ(parse_yaml("train: x\nnc: 3\n").names, (Names{"0", "1", "2"}));
  EXPECT_EQ(parse_yaml("names: [0, 1.50, true]").names, (Names{"0", "1.50", "true"}));
  EXPECT_TRUE(parse_yaml("train: x\n").names.empty());
}

TEST(DataYamlFile, WrongOnesAreNamedWithTheirLine) {
  expect_bad_yaml("train: x\nnames: [a, b\n", {"data.yaml:3: this is no YAML that can be read"});
  expect_bad_yaml("- a\n", {"data.yaml:1: there are no keys"});
  expect_bad_yaml("", {"data.yaml:1: there are no keys"});
  expect_bad_yaml("train: x\nnc: 3\nnames: [a, b]\n", {"data.yaml:2: nc is 3, but there are 2 names"});
  expect_bad_yaml("nc: 888888\n", {"data.yaml:1: nc is 888888, and there are no names"});
  expect_bad_yaml("nc: many\n", {"data.yaml:1: 'many' is not a number of classes"});
  expect_bad_yaml("nc: -1\n", {"'-1' is not"});
  expect_bad_yaml("names: a\n", {"names is a list of names, or a map"});
  expect_bad_yaml("names:\n- a\n- b\n- a\n", {"data.yaml:4: there are two classes 'a'"});
  expect_bad_yaml("names:\n- a\n- [b]\n", {"data.yaml:3: the name of a class is no text"});
  expect_bad_yaml("names: {0: a, 2: b}\n", {"data.yaml:1: the class 1 has no name"});
  expect_bad_yaml("names:\n  0: a\n  00: b\n", {"data.yaml:3: the class 0 has two names"});
  expect_bad_yaml("names:\n  first: a\n", {"data.yaml:2: 'first' is not the number of a class"});
  expect_bad_yaml("train: {a: b}\n", {"data.yaml:1: train is a path, or a list of paths"});
  expect_bad_yaml("val:\n- a\n- {b: c}\n", {"data.yaml:3: an entry of val is no path"});
  expect_bad_yaml("path: [a, b]\n", {"give one"});
}

TEST(DataYamlFile, NestingAndAliasesCostNoMoreThanTheirText) {
  expect_bad_yaml("names: " + std::string(100'000, '['), {"this is no YAML that can be read"});
  std::string laughs = "a0: &a0 [x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + ", " + before + "]\n";
  }
  EXPECT_EQ(parse_yaml(laughs + "names: [a]\n").names, (Names{"a"}));
}

}  // namespace
}  // namespace lockstep::vision
