// SPDX-License-Identifier: Apache-2.0
#include "nn/description/description.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

ModelDescription described() {
  DataSpec data = DataSpec::of_images(3, 32, 48, 2);
  data.stem = Stem::cifar;
  return {.model = "resnet18",
          .data = data,
          .class_names = {"cat", "sea lion"},
          .images = Normalization{{0.1, 1.0 / 3, 0.5}, {0.25, 1e-3, 1}}};
}

TEST(Description, IsReadAsItWasWritten) {
  const ModelDescription written = described();
  const auto read = description_of(to_metadata(written), "file");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->model, written.model);
  EXPECT_EQ(read->data.tensors, written.data.tensors);
  EXPECT_EQ(read->data.classes, 2);
  EXPECT_EQ(read->data.stem, Stem::cifar);
  EXPECT_EQ(read->class_names, written.class_names);
  EXPECT_EQ(read->images, written.images) << "with all digits";
}

TEST(Description, HasTheAnchorsOfADetector) {
  ModelDescription written = described();
  written.data.anchors = {10, 13.5, 1.0 / 3, 30};
  EXPECT_EQ(description_of(to_metadata(written), "file")->data.anchors, written.data.anchors) << "with all digits";
}

TEST(Description, HasTheCategoriesOfCoco) {
  ModelDescription written = described();
  written.category_ids = {1, 90};
  EXPECT_EQ(description_of(to_metadata(written), "file")->category_ids, written.category_ids);
}

TEST(Description, HasOnlyWhatIsKnown) {
  const ModelDescription written{.model = "lenet", .data = DataSpec::of_images(1, 28, 28, 10), .class_names = {}};
  const auto read = description_of(to_metadata(written), "file");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->data.stem, Stem::by_extent);
  EXPECT_TRUE(read->class_names.empty());
  EXPECT_FALSE(read->images.has_value());
  EXPECT_FALSE(description_of({{"format", "pt"}}, "file").has_value());
}

TEST(Description, HasNamesThatFilesOfTensorsAllow) {
  ModelDescription written = described();
  written.class_names = {"two\nlines", "\xff"};
  EXPECT_EQ(description_of(to_metadata(written), "file")->class_names, (std::vector<std::string>{"two?lines", "?"}));
}

TEST(Description, OfAFileThatIsDamagedNamesTheText) {
  const auto message_of = [](const std::string& name, const std::string& text) -> std::string {
    Metadata metadata = to_metadata(described());
    metadata["lockstep." + name] = text;
    try {
      (void)description_of(metadata, "a.safetensors");
      return "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      return error.message();
    }
  };
  const std::pair<const char*, const char*> damaged[] = {
      {"classes", "ten"},
      {"classes", "-1"},
      {"classes", ""},
      {"stem", "mnist"},
      {"tensors", "images 3 32"},
      {"tensors", "images 3 0 32"},
      {"tensors", "images 3 99999999999 32"},
      {"tensors", "images 3 3 3 real"},
      {"mean", "0.5 half 0.5"},
      {"mean", "0.5"},
      {"deviation", "1 0 1"},
      {"deviation", "1 nan 1"},
      {"mean", "0 inf 0"},
      {"class_names", "one\n"},
      {"anchors", "10 13 16"},
      {"anchors", "10 -13"},
      {"anchors", "10 nan"},
      {"category_ids", "1"},
      {"category_ids", "1 2.5"},
  };
  for (const auto& [name, text] : damaged) {
    const std::string message = message_of(name, text);
    EXPECT_EQ(message.find("in 'a.safetensors', the metadata \"lockstep."), 0U)
        << name << ' ' << text << ": " << message;
  }
  Metadata without = to_metadata(described());
  without.erase("lockstep.tensors");
  EXPECT_THROW((void)description_of(without, "file"), Error);
}

}  // namespace
}  // namespace lockstep::nn
