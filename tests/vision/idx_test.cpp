// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/idx.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "data/idx_files.hpp"

namespace lockstep::vision {
namespace {

using data::idx_bytes;
using data::read_all;
using data::TemporaryDirectory;
using data::write_gzip;
using data::write_plain;

class IdxTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return directory_.path() / "file"; }
  void expect_refused(const std::string& bytes, ErrorCode code, std::vector<std::string> parts) {
    write_plain(path(), bytes);
    parts.push_back(path().string());
    expect_error([this] { (void)read_idx(path(), 3); }, code, parts);
  }

  TemporaryDirectory directory_;
  std::string images_ = idx_bytes({2, 2, 3}, "abcdefghijkl");
};

TEST_F(IdxTest, ReadsPlainAndGzippedFiles) {
  for (const bool gzipped : {false, true}) {
    (gzipped ? write_gzip : write_plain)(path(), images_);
    const IdxFile file = read_idx(path(), 3);
    EXPECT_EQ(file.sizes, (std::vector<std::int64_t>{2, 2, 3}));
    EXPECT_EQ(std::string(file.bytes.begin(), file.bytes.end()), "abcdefghijkl");
  }
}

TEST_F(IdxTest, MissingFile) {
  expect_error([this] { (void)read_idx(path(), 3); }, ErrorCode::io, {path().string(), "No such file or directory"});
}

TEST_F(IdxTest, DirectoryInsteadOfAFile) {
  expect_error([this] { (void)read_idx(directory_.path(), 3); }, ErrorCode::io,
               {directory_.path().string(), "Is a directory"});
}

TEST_F(IdxTest, EmptyFile) { expect_refused("", ErrorCode::corrupt, {"is empty"}); }

TEST_F(IdxTest, NoImages) { expect_refused(idx_bytes({0, 2, 3}, ""), ErrorCode::corrupt, {"is empty"}); }

TEST_F(IdxTest, TruncatedHeader) {
  expect_refused(images_.substr(0, 10), ErrorCode::corrupt, {"truncated", "16 bytes of header expected, 10 found"});
  expect_refused(images_.substr(0, 3), ErrorCode::corrupt, {"truncated", "16 bytes of header expected, 3 found"});
}

TEST_F(IdxTest, TruncatedData) {
  expect_refused(images_.substr(0, images_.size() - 5), ErrorCode::corrupt,
                 {"truncated", "12 bytes of data expected, 7 found"});
}

TEST_F(IdxTest, MoreDataThanAnnounced) {
  expect_refused(images_ + "z", ErrorCode::corrupt, {"more than the 12 bytes of data that its header announces"});
}

TEST_F(IdxTest, LabelsWhereImagesAreExpected) {
  expect_refused(idx_bytes({4}, "abcd"), ErrorCode::corrupt,
                 {"holds labels where images are expected", "0x00000801", "0x00000803"});
}

TEST_F(IdxTest, ElementsOfAnotherType) {
  expect_refused(idx_bytes({1, 1, 1}, "abcd", 0x0d), ErrorCode::corrupt, {"not unsigned bytes", "0x00000d03"});
}

TEST_F(IdxTest, AnotherFormat) {
  expect_refused("\x89PNG\r\n\x1a\n and more", ErrorCode::corrupt, {"is not an IDX file"});
}

TEST_F(IdxTest, HeaderThatAnnouncesMoreThanCanExist) {
  expect_refused(idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, "abc"), ErrorCode::corrupt, {"damaged header"});
  // This size is possible, but the data are missing; the error must come without allocating two terabytes.
  expect_refused(idx_bytes({0x7fffffff, 32, 32}, "abc"), ErrorCode::corrupt, {"truncated", "3 found"});
}

/// Returns images that cannot be compressed, more of them than zlib unpacks at once.
std::string images_of_noise() {
  std::string bytes;
  for (std::uint32_t i = 0; i < 100'000; ++i) bytes += static_cast<char>(i * 2654435761U >> 24);
  return idx_bytes({100, 100, 10}, bytes);
}

TEST_F(IdxTest, TruncatedGzip) {
  write_gzip(path(), images_of_noise());
  const std::string whole = read_all(path());
  expect_refused(whole.substr(0, whole.size() / 2), ErrorCode::corrupt, {"truncated", "gzip"});
}

TEST_F(IdxTest, GzipWithoutAllOfItsTrailer) {
  for (const std::string& images : {images_, images_of_noise()}) {
    write_gzip(path(), images);
    const std::string whole = read_all(path());
    for (std::size_t missing = 1; missing <= 8; ++missing)
      expect_refused(whole.substr(0, whole.size() - missing), ErrorCode::corrupt, {"truncated", "gzip"});
  }
}

TEST_F(IdxTest, GzipOfSeveralMembersIsCheckedToItsEnd) {
  std::vector<std::string> members;
  for (const std::string& part : {images_.substr(0, 7), images_.substr(7)}) {
    write_gzip(path(), part);
    members.push_back(read_all(path()));
  }
  const std::string both = members[0] + members[1];
  for (const std::string& good : {both, both + std::string(1000, '\0')}) {
    write_plain(path(), good);
    const IdxFile file = read_idx(path(), 3);
    EXPECT_EQ(std::string(file.bytes.begin(), file.bytes.end()), "abcdefghijkl");
  }
  for (std::size_t missing = 1; missing <= members[1].size(); ++missing)
    expect_refused(both.substr(0, both.size() - missing), ErrorCode::corrupt, {"truncated"});
  for (const std::size_t end : {members[0].size(), both.size()}) {
    for (std::size_t behind = 1; behind <= 8; ++behind) {  // checksum and length
      std::string damaged = both;
      damaged[end - behind] = static_cast<char>(damaged[end - behind] ^ 1);
      expect_refused(damaged, ErrorCode::corrupt, {"damaged", "gzip"});
    }
  }
  expect_refused(both + "more", ErrorCode::corrupt, {"damaged", "gzip"});
}

TEST_F(IdxTest, CorruptGzip) {
  write_gzip(path(), idx_bytes({100, 10, 10}, std::string(10'000, 'x')));
  std::string bytes = read_all(path());
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 0x55);  // in the checksum
  expect_refused(bytes, ErrorCode::corrupt, {"damaged", "gzip"});
}

}  // namespace
}  // namespace lockstep::vision
