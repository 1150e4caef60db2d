// SPDX-License-Identifier: Apache-2.0
// The same pictures of MNIST in the layouts of all formats that have labels.
#include <algorithm>
#include <cstdlib>

#include "support/verdict.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t few = 100;  // all digits are among the first 62

/// A picture as it is decoded, with its label.
struct Decoded {
  std::int32_t label = 0;
  std::vector<std::uint8_t> pixels;
  friend bool operator==(const Decoded&, const Decoded&) = default;
  friend auto operator<=>(const Decoded&, const Decoded&) = default;
};

Decoded decoded_sample(const Source& source, std::int64_t sample) {
  std::vector<std::byte> bytes;
  source.read(sample, bytes);
  Image picture;
  source.decode(sample, bytes, {.channels = 1}, picture);
  return {source.annotation(sample).label, picture.pixels};
}

std::vector<Decoded> all_decoded(const Source& source, std::int64_t most) {
  std::vector<Decoded> all;
  for (std::int64_t sample = 0; sample < std::min(source.size(), most); ++sample)
    all.push_back(decoded_sample(source, sample));
  return all;
}

std::string png_of(const Source& source, std::int64_t sample) {
  std::vector<std::byte> bytes;
  source.read(sample, bytes);
  Image picture;
  source.decode(sample, bytes, {.channels = 1}, picture);
  const std::vector<std::byte> png = encode_png(picture);
  return {reinterpret_cast<const char*>(png.data()), png.size()};
}

TEST(SameSamples, AreReadInEveryLayout) {
  const char* root = std::getenv("LOCKSTEP_DATA");
  const fs::path mnist = fs::path(root != nullptr ? root : LOCKSTEP_DATA_DEFAULT) / "mnist";
  if (!fs::exists(mnist)) LOCKSTEP_SKIP(mnist) << mnist << " does not exist; set LOCKSTEP_DATA";
  const Sources original = open_sources({.data = mnist, .evaluates_only = true});
  EXPECT_EQ(original.survey.format, "mnist");
  std::vector<Decoded> expected = all_decoded(*original.val, few);

  const UserFiles user;
  std::string list;
  for (std::int64_t sample = 0; sample < few; ++sample) {
    const std::string label = std::to_string(original.val->annotation(sample).label);
    const std::string png = png_of(*original.val, sample);
    user.put("folder/test/" + label + '/' + std::to_string(sample) + ".png", png);
    user.put("list/png/" + std::to_string(sample) + ".jpg", png);  // the contents decide
    list += "png/" + std::to_string(sample) + ".jpg " + label + "\r\n";
  }
  user.put("list/test_list.txt", list);

  const Sources of_list = open_sources({.data = user.path("list"), .evaluates_only = true});
  EXPECT_EQ(of_list.survey.format, "list");
  EXPECT_TRUE(all_decoded(*of_list.val, few) == expected);
  const Sources of_folder = open_sources({.data = user.path("folder"), .evaluates_only = true});
  EXPECT_EQ(of_folder.survey.format, "folder");
  std::vector<Decoded> found = all_decoded(*of_folder.val, few);
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_TRUE(found == expected);
}

}  // namespace
}  // namespace lockstep::vision
