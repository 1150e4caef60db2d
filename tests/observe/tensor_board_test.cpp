// SPDX-License-Identifier: Apache-2.0
#include "observe/tensor_board.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "observe/scratch_file.hpp"

namespace lockstep::observe {
namespace {

/// The fields of a message in the encoding of Protocol Buffers, by number, in their order.
using Fields = std::multimap<int, std::string>;

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

/// Reads a message. Integers become eight bytes, the lowest first.
Fields fields_of(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    std::size_t size = key % 8 == 1 ? 8 : 4;
    if (key % 8 == 0) {
      const std::uint64_t value = take_varint(bytes);
      fields.emplace(key / 8, std::string(reinterpret_cast<const char*>(&value), sizeof value));
      continue;
    }
    if (key % 8 == 2) size = take_varint(bytes);
    EXPECT_LE(size, bytes.size());
    fields.emplace(key / 8, bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return fields;
}

float real_of(const std::string& bytes) {
  float value = 0;
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Reads the records of a file and checks their checksums. @return the events
std::vector<Fields> events_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = all;
  std::vector<Fields> events;
  while (!rest.empty()) {
    const std::string_view length = rest.substr(0, 8);
    const std::string_view bytes = rest.substr(12, number_of(length));
    EXPECT_EQ(number_of(rest.substr(8, 4)), masked_crc(length));
    EXPECT_EQ(number_of(rest.substr(12 + bytes.size(), 4)), masked_crc(bytes));
    events.push_back(fields_of(bytes));
    rest.remove_prefix(16 + bytes.size());
  }
  return events;
}

/// A folder that is removed at the end.
class Folder : public testing::Test {
 protected:
  ~Folder() override { std::filesystem::remove_all(path_); }
  /// The paths of the event files, in the order in which TensorBoard reads them.
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) paths.push_back(entry.path());
    std::ranges::sort(paths);
    return paths;
  }
  /// Returns the tags and values of a summary.
  static std::map<std::string, float> scalars_of(const Fields& event) {
    std::map<std::string, float> scalars;
    const Fields summary = fields_of(event.find(5)->second);
    for (const auto& [field, bytes] : summary) {
      EXPECT_EQ(field, 1);
      const Fields value = fields_of(bytes);
      scalars[value.find(1)->second] = real_of(value.find(2)->second);
    }
    return scalars;
  }
  static std::uint64_t step_of(const Fields& event) { return number_of(event.find(2)->second); }

  const std::filesystem::path path_ = ScratchFile().path().string() + ".events";
};

/// @source RFC 3720, appendix B.4, for the values without mask; TensorFlow's tests for that of a record
TEST(Records, HaveTheChecksumsOfTensorFlow) {
  const auto unmasked = [](std::string_view bytes) {
    const std::uint32_t rotated = masked_crc(bytes) - 0xA282EAD8;
    return rotated >> 17 | rotated << 15;
  };
  EXPECT_EQ(unmasked(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(unmasked(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(unmasked("123456789"), 0xE3069283U);
  EXPECT_EQ(record_of("").size(), 16U);
  EXPECT_EQ(record_of("abc").substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record_of("abc").substr(12, 3), "abc");
}

TEST_F(Folder, IsMadeAndItsFileBeginsWithTheVersion) {
  TensorBoard board(path_ / "deep");
  const auto files = [&] { return std::filesystem::directory_iterator(path_ / "deep")->path(); };
  EXPECT_TRUE(files().filename().string().starts_with("events.out.tfevents.1")) << files();
  const std::vector<Fields> events = events_of(files());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].find(3)->second, "brain.Event:2");
}

TEST_F(Folder, HasTheScalarsOfStepsAndEpochs) {
  TensorBoard board(path_);
  board.write(StepEvent{.step = 300,
                        .loss = 0.25,
                        .learning_rate = 0.125,
                        .images_per_second = 1000,
                        .steps = 2,
                        .seconds = 8,
                        .data_wait_seconds = 2,
                        .exposed_communication_seconds = 1});
  board.write(EpochEvent{.step = 301, .train_loss = 0.5, .metrics = {{"accuracy", 0.75}, {"loss", {}}}});
  const std::vector<Fields> events = events_of(files().at(0));
  ASSERT_EQ(events.size(), 3U) << "each is written at once";
  using Scalars = std::map<std::string, float>;
  EXPECT_EQ(step_of(events[1]), 300U);
  EXPECT_EQ(scalars_of(events[1]), (Scalars{{"train/loss", 0.25F},
                                            {"train/learning_rate", 0.125F},
                                            {"train/images_per_second", 1000.0F},
                                            {"step_seconds/data", 1.0F},
                                            {"step_seconds/compute", 2.5F},
                                            {"step_seconds/communication", 0.5F}}));
  EXPECT_EQ(scalars_of(events[2]), (Scalars{{"train/epoch_loss", 0.5F}, {"val/accuracy", 0.75F}}))
      << "what was not evaluated is left out";
}

TEST_F(Folder, HasPictures) {
  TensorBoard board(path_);
  const std::vector<std::byte> png(300, std::byte{0x89});
  board.write(PictureEvent{.step = 7, .tag = "val/predictions", .width = 40, .height = 30, .png = png});
  const Fields event = events_of(files().at(0)).at(1);
  const Fields summary = fields_of(event.find(5)->second);
  const Fields value = fields_of(summary.find(1)->second);
  EXPECT_EQ(value.find(1)->second, "val/predictions");
  const Fields image = fields_of(value.find(4)->second);
  EXPECT_EQ(number_of(image.find(1)->second), 30U);
  EXPECT_EQ(number_of(image.find(2)->second), 40U);
  EXPECT_EQ(image.find(4)->second, std::string(300, '\x89'));
}

TEST_F(Folder, GetsAFileForEachStartWhichReplacesLaterSteps) {
  TensorBoard(path_).write(StartEvent{});
  TensorBoard(path_).write(StartEvent{.step = 40});
  TensorBoard(path_).write(RecoveryEvent{.step = 50});
  const auto paths = files();
  ASSERT_EQ(paths.size(), 3U) << "in the order of their names, though all were made at once";
  std::vector<std::uint64_t> steps;
  for (const auto& path : paths) {
    const Fields event = events_of(path).at(1);
    const Fields session = fields_of(event.find(7)->second);
    EXPECT_EQ(number_of(session.find(1)->second), 1U) << "START";
    steps.push_back(step_of(event));
  }
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{1, 41, 51}));
}

TEST(EventFile, ThatCannotBeMadeIsAnErrorAtOnce) {
  try {
    const EventFile file("/proc/no/folder");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(error.message().rfind("cannot write /proc/no/folder: ", 0), 0U) << error.message();
  }
}

}  // namespace
}  // namespace lockstep::observe
