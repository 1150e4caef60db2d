// SPDX-License-Identifier: Apache-2.0
// This file implements a key-value store in a folder.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/text_file.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class FileStore final : public KeyValueStore {
 public:
  explicit FileStore(const std::string& folder) : folder_(folder) {
    std::error_code error;
    fs::create_directories(folder_, error);
    const std::string why_not = error ? error.message() : why_no_folder(folder);
    if (!why_not.empty()) fail(why_not);
  }

  /// Writes a file of another name first, so that nobody reads a part.
  void set(const std::string& key, const std::string& value) override {
    const fs::path path = path_of(key);
    const fs::path unfinished = path.string() + "." + own_ + std::to_string(++written_);
    std::ofstream file(unfinished, std::ios::binary);
    file << value;
    file.close();
    if (!file) fail("cannot write " + unfinished.string() + ": " + std::generic_category().message(errno));
    std::error_code error;
    fs::rename(unfinished, path, error);
    if (error) fail("cannot write " + path.string() + ": " + error.message());
  }

  std::optional<std::string> get(const std::string& key, std::chrono::duration<double> at_most) override {
    constexpr std::chrono::milliseconds longest_sleep{20};
    std::chrono::milliseconds sleep{1};
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(at_most);
    const fs::path path = path_of(key);
    while (true) {
      std::ifstream file(path, std::ios::binary);
      if (file) {
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
      }
      if (Clock::now() >= end) return std::nullopt;
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, longest_sleep);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::io, "the store " + folder_.string() + ": " + why);
  }
  /// Writes what no file name may have in digits.
  [[nodiscard]] fs::path path_of(const std::string& key) const {
    std::string name;
    for (const char c : key) {
      const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
      name += is_plain ? std::string{c} : "%" + std::to_string(static_cast<unsigned char>(c));
    }
    return folder_ / name;
  }

  fs::path folder_;
  std::string own_ = random_word();
  std::atomic<int> written_ = 0;
};

}  // namespace

std::unique_ptr<KeyValueStore> make_file_store(const std::string& folder) {
  return std::make_unique<FileStore>(folder);
}

}  // namespace lockstep
