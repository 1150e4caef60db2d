// SPDX-License-Identifier: Apache-2.0
#include "vision/source/files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

Names paths_below(const fs::path& folder) {
  Names paths;
  for (const FoundFile& file : files_below(folder)) paths.push_back(file.path);
  return paths;
}

TEST(Files, AreSortedByFolderAndThenByNameAsTorchvisionDoes) {
  const UserFiles user;
  user.put_pictures({"b.jpg", "a.jpg", "z/1.jpg", "A.jpg", "a/2.jpg", "a/b/1.jpg", "a-b/3.jpg", "a/z.jpg"});
  // '-' comes before '/', as in a sorted os.walk: the folders are "a", "a-b", "a/b", "z".
  EXPECT_EQ(paths_below(user.path()),
            (Names{"A.jpg", "a.jpg", "b.jpg", "a/2.jpg", "a/z.jpg", "a-b/3.jpg", "a/b/1.jpg", "z/1.jpg"}));
}

TEST(Files, NamesAreBytesAndHiddenOnesAreLeftOut) {
  const UserFiles user;
  user.put_pictures({"gr\xc3\xbc\xc3\x9f.jpg", "latin\xfc.jpg", "two words.jpg", ".DS_Store", "._a.jpg", ".git/a.jpg"});
  EXPECT_EQ(paths_below(user.path()), (Names{"gr\xc3\xbc\xc3\x9f.jpg", "latin\xfc.jpg", "two words.jpg"}));
  EXPECT_EQ(vision::shown("latin\xfc\n.jpg"), "latin??.jpg");
}

TEST(Files, LinksAreFollowedUnlessTheyLeadBack) {
  const UserFiles user;
  user.put_pictures({"elsewhere/1.jpg", "data/own.jpg"});
  fs::create_directory_symlink(user.path("elsewhere"), user.path("data/linked"));
  fs::create_symlink(user.path("elsewhere/1.jpg"), user.path("data/one.jpg"));
  EXPECT_EQ(paths_below(user.path("data")), (Names{"one.jpg", "own.jpg", "linked/1.jpg"}));
  EXPECT_EQ(folders_in(user.path("data")), Names{"linked"});
  fs::create_directory_symlink("..", user.path("elsewhere/up"));
  expect_error([&] { (void)files_below(user.path()); }, ErrorCode::io,
               {"elsewhere/up", "is a link to a folder that contains it"});
}

TEST(Files, SayWhyTheyCannotBeRead) {
  const UserFiles user;
  user.put("picture.jpg", "bytes");
  user.put("empty.jpg", "");
  fs::create_directory(user.path("folder.jpg"));
  fs::create_symlink("nowhere.jpg", user.path("dangling.jpg"));
  fs::create_symlink("loop.jpg", user.path("loop.jpg"));
  ASSERT_EQ(mkfifo(user.path("pipe.jpg").c_str(), 0600), 0);
  const auto expect_unreadable = [&](const std::string& name, const std::string& why) {
    EXPECT_NE(state_of(user.path(name)).why_not.find(why), std::string::npos) << state_of(user.path(name)).why_not;
    std::vector<std::byte> bytes;
    expect_error([&] { read_file(user.path(name), bytes); }, ErrorCode::io, {user.path(name).string(), why});
  };
  expect_unreadable("missing.jpg", "does not exist");
  expect_unreadable("picture.jpg/inside.jpg", "does not exist");
  expect_unreadable("folder.jpg", "is a folder");
  expect_unreadable("dangling.jpg", "is a symbolic link to nowhere.jpg, which does not exist");
  expect_unreadable("loop.jpg", "cannot be read: Too many levels of symbolic links");
  expect_unreadable("pipe.jpg", "is not an ordinary file");
  std::vector<std::byte> bytes(100);
  read_file(user.path("picture.jpg"), bytes);
  EXPECT_EQ(bytes.size(), 5U);
  read_file(user.path("empty.jpg"), bytes);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(state_of(user.path("picture.jpg")).bytes, 5);
}

TEST(Files, WithoutPermissionAreNotMissing) {
  constexpr uid_t nobody = 65534;
  const UserFiles user;
  user.put_pictures({"closed/picture.jpg"});
  fs::permissions(user.path("closed"), fs::perms::none);
  const bool is_root = geteuid() == 0;  // who may read every file
  if (is_root) {
    ASSERT_EQ(seteuid(nobody), 0);
  }
  const FileState state = state_of(user.path("closed/picture.jpg"));
  std::vector<std::byte> bytes;
  expect_error([&] { read_file(user.path("closed/picture.jpg"), bytes); }, ErrorCode::io,
               {user.path("closed/picture.jpg").string() + " cannot be read: Permission denied"});
  expect_error([&] { (void)files_below(user.path("closed")); }, ErrorCode::io, {"cannot be read: Permission denied"});
  expect_error([&] { (void)folders_in(user.path("closed")); }, ErrorCode::io, {"cannot be read: Permission denied"});
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  fs::permissions(user.path("closed"), fs::perms::owner_all);
  EXPECT_EQ(state.why_not, "cannot be read: Permission denied");
}

TEST(Files, TooLargeForAPictureAreRefused) {
  const UserFiles user;
  user.put("huge.jpg", "");
  fs::resize_file(user.path("huge.jpg"), (std::uintmax_t{1} << 30) + 1);  // sparse
  std::vector<std::byte> bytes;
  expect_error([&] { read_file(user.path("huge.jpg"), bytes); }, ErrorCode::io,
               {"has 1073741825 bytes, more than the 1 GiB"});
}

TEST(Files, SuffixesAreComparedInAnyCase) {
  EXPECT_TRUE(has_picture_suffix("a.JPG") && has_picture_suffix("a.b.Jpeg") && has_picture_suffix("x.png"));
  EXPECT_FALSE(has_picture_suffix("jpg") || has_picture_suffix("a.jpg.txt") || has_picture_suffix("a.webp"));
  EXPECT_EQ(refused_kind("a.WebP"), "WebP");
  EXPECT_EQ(refused_kind("a.tif"), "TIFF");
  EXPECT_EQ(refused_kind("a.HEIC"), "HEIC");
  EXPECT_EQ(refused_kind("a.bmp"), "BMP");
  EXPECT_EQ(refused_kind("a.jpg"), "");
  EXPECT_EQ(refused_kind("a"), "");
}

TEST(Files, PathsAreNormalized) {
  EXPECT_EQ(normal("a/b.jpg"), "a/b.jpg");
  EXPECT_EQ(normal("./a//b.jpg"), "a/b.jpg");
  EXPECT_EQ(normal("x/../a/./b.jpg"), "a/b.jpg");
  EXPECT_EQ(normal("../a.jpg"), "../a.jpg");
}

}  // namespace
}  // namespace lockstep::vision
