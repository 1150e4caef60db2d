// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class TextFile : public testing::Test {
 protected:
  TextFile() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~TextFile() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  [[nodiscard]] long files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_;
};

std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

TEST_F(TextFile, IsMadeReadAndReplaced) {
  const SharedTextFile file(path("table"));
  EXPECT_FALSE(file.read());
  EXPECT_EQ(files(), 0) << "trying out leaves nothing";
  file.update([](const auto& present) { return present ? "?" : "one"; });
  file.update([](const auto& present) { return *present + ", two"; });
  EXPECT_EQ(*file.read(), "one, two");
  EXPECT_EQ(files(), 1);
}

TEST_F(TextFile, KeepsItsModeAndTheLinkThatLeadsToIt) {
  write("table", "old");
  chmod(path("table").c_str(), 0640);
  fs::create_symlink("table", path("link"));
  SharedTextFile(path("link")).update([](const auto&) { return "new"; });
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_text(path("table")), "new");
  EXPECT_EQ(fs::status(path("table")).permissions(), fs::perms(0640));
}

TEST_F(TextFile, LeavesAloneWhatHasANameLikeItsOwn) {
  write("victim", "precious");
  write("table.next", "mine");
  fs::create_symlink("victim", path("table.tmp-" + std::to_string(getpid()) + "-0"));
  SharedTextFile(path("table")).update([](const auto&) { return "new"; });
  EXPECT_EQ(read_text(path("victim")), "precious");
  EXPECT_EQ(read_text(path("table.next")), "mine");
  EXPECT_EQ(read_text(path("table")), "new");
}

TEST_F(TextFile, IsAsBeforeWhereItsNewTextCannotBeMade) {
  write("table", "old");
  const SharedTextFile file(path("table"));
  EXPECT_THROW(file.update([](const auto&) -> std::string { throw Error(ErrorCode::corrupt, "no"); }), Error);
  EXPECT_EQ(*file.read(), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(TextFile, IsKnownToHaveNoRoomBeforeTheWork) {
  write("table", "old");
  const SharedTextFile file(path("table"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string at_first = complaint([&] { (void)SharedTextFile(path("table")); });
  const std::string later = complaint([&] { file.update([](const auto&) { return std::string(2000, 'x'); }); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  for (const std::string& text : {at_first, later}) {
    EXPECT_EQ(text.find("cannot write '" + path("table") + "': "), 0U) << text;
  }
  EXPECT_EQ(*file.read(), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(TextFile, IsAnOrdinaryFile) {
  EXPECT_NE(complaint([&] { (void)SharedTextFile(folder_); }).find("it is a folder"), std::string::npos);
  EXPECT_NE(complaint([&] { (void)SharedTextFile("/dev/full"); }).find("not an ordinary file"), std::string::npos);
  EXPECT_NE(complaint([&] { (void)SharedTextFile(path("no/table")); }).find("No such file"), std::string::npos);
}

TEST_F(TextFile, KeepsWhatSeveralProcessesAdd) {
  constexpr int processes = 4;
  constexpr int lines = 25;
  for (int process = 0; process < processes; ++process) {
    if (fork() != 0) continue;
    const SharedTextFile file(path("table"));
    for (int i = 0; i < lines; ++i) file.update([](const auto& present) { return present.value_or("") + "line\n"; });
    _exit(0);
  }
  for (int process = 0; process < processes; ++process) {
    int status = 0;
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  const std::string text = read_text(path("table"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), processes * lines);
  EXPECT_EQ(files(), 1);
}

TEST_F(TextFile, IsReadToABound) {
  write("text", "abc");
  EXPECT_EQ(read_text(path("text"), 3), "abc");
  EXPECT_NE(complaint([&] { (void)read_text(path("text"), 2); }).find("longer than 2 bytes"), std::string::npos);
  EXPECT_NE(complaint([&] { (void)read_text("/dev/zero"); }).find("longer than"), std::string::npos);
  EXPECT_NE(complaint([&] { (void)read_text(folder_); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(complaint([&] { (void)read_text(path("none")); }).find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
