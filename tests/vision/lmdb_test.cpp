// SPDX-License-Identifier: Apache-2.0
// Databases of pictures of lines and their texts.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "vision/formats/text_records.hpp"
#include "vision/text_database.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

std::string bytes_of_sample(const Source& source, std::int64_t sample) {
  std::vector<std::byte> bytes;
  source.read(sample, bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A database of samples whose pictures are the bytes "picture TEXT".
void put_texts(const std::filesystem::path& folder, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> values = {{"num-samples", std::to_string(texts.size())}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string number = "-00000000" + std::to_string(i + 1);
    values["image" + number] = "picture " + texts[i];
    values["label" + number] = texts[i];
  }
  put_database(folder, values);
}

TEST(Lmdb, EachFolderWithADatabaseBelongsToThePartAboveIt) {
  const UserFiles files;
  put_texts(files.path("training/MJ/MJ_train"), {"Word", "two"});
  put_texts(files.path("training/ST"), {"three", "?"});
  put_texts(files.path("validation"), {"four"});
  const Sources sources = open_sources({.data = files.path()});
  EXPECT_EQ(sources.train->format(), "lmdb");
  ASSERT_EQ(sources.train->size(), 3);
  EXPECT_EQ(sources.train->relative_place(0), "MJ/MJ_train/image-000000001");
  EXPECT_EQ(sources.train->annotation(0).text, "word");
  EXPECT_EQ(bytes_of_sample(*sources.train, 0), "picture Word");
  EXPECT_EQ(sources.train->stored_bytes(0), 12);
  EXPECT_EQ(bytes_of_sample(*sources.train, 2), "picture three");
  EXPECT_EQ(sources.survey.train->notes.empty_texts.first, "ST/image-000000002");
  ASSERT_EQ(sources.val->size(), 1);
  EXPECT_EQ(bytes_of_sample(*sources.val, 0), "picture four");
  EXPECT_NE(sources.val->place(0).find("validation/image-000000001"), std::string::npos);
}

TEST(Lmdb, IsDividedAndReadByThreadsAtOnce) {
  const UserFiles files;
  std::vector<std::string> texts;
  for (int i = 0; i < 9; ++i) texts.push_back("text" + std::to_string(i));
  put_texts(files.path(), texts);
  const Sources sources = open_sources({.data = files.path("data.mdb"), .val_split = 0.3});
  ASSERT_EQ(sources.train->size() + sources.val->size(), 9);
  EXPECT_EQ(sources.val->size(), 3);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int repetition = 0; repetition < 200; ++repetition)
        for (const auto& part : {sources.train, sources.val})
          for (std::int64_t i = 0; i < part->size(); ++i)
            EXPECT_EQ(bytes_of_sample(*part, i), "picture " + part->annotation(i).text);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Lmdb, SamplesWithoutPictureOrTextAreCountedAndDamageIsNamed) {
  const UserFiles files;
  put_database(files.path("a"), {{"num-samples", "3"},
                                 {"image-000000001", "x"},
                                 {"label-000000001", "one"},
                                 {"image-000000002", "x"},
                                 {"label-000000003", "three"}});
  const Sources sources = open_sources({.data = files.path("a")});
  EXPECT_EQ(sources.train->size(), 1);
  EXPECT_NE(sources.survey.train->notes.without_annotation.first.find("image-000000002"), std::string::npos);
  EXPECT_NE(sources.survey.train->notes.without_picture.first.find("label-000000003"), std::string::npos);
  const auto open = [&](const char* folder) { (void)open_sources({.data = files.path(folder)}); };
  put_database(files.path("b"), {{"image-000000001", "x"}});
  expect_error([&] { open("b"); }, ErrorCode::corrupt, {"/b: ", "no key num-samples"});
  put_database(files.path("c"), {{"num-samples", "many"}});
  expect_error([&] { open("c"); }, ErrorCode::corrupt, {"/c: ", "'many'"});
  put_database(files.path("d"), {{"num-samples", "1000000000"}, {"label-000000001", "x"}});
  expect_error([&] { open("d"); }, ErrorCode::corrupt, {"/d: ", "1000000000", "only 2 keys"});
  put_database(files.path("e"), {{"num-samples", "1"}, {"image-000000001", "x"}, {"label-000000001", "\xff"}});
  expect_error([&] { open("e"); }, ErrorCode::corrupt, {"/e: ", "label-000000001", "UTF-8"});
  files.put("f/data.mdb", std::string(100'000, 'x'));
  expect_error([&] { open("f"); }, ErrorCode::io, {"/f cannot be read as a database of LMDB"});
}

TEST(Lmdb, AFileThatWasCutIsRefused) {
  const UserFiles files;
  put_database(files.path("a"),
               {{"num-samples", "1"}, {"image-000000001", std::string(50'000, 'x')}, {"label-000000001", "x"}});
  std::filesystem::resize_file(files.path("a/data.mdb"), 16'384);
  expect_error([&] { (void)open_sources({.data = files.path("a")}); }, ErrorCode::corrupt,
               {"data.mdb has 16384 of its", "copy it again"});
}

}  // namespace
}  // namespace lockstep::vision
