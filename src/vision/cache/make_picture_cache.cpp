// SPDX-License-Identifier: Apache-2.0
#include "vision/cache/make_picture_cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/hash.hpp"
#include "lockstep/base/error.hpp"
#include "platform/machine/available_memory.hpp"
#include "vision/cache/first_reason.hpp"

namespace lockstep::vision {
namespace {

std::uint64_t hash_of_contents(const std::string& contents) {
  constexpr std::string_view version =
      "decoded pictures 1";  // change it with the layout of the file, or what is decoded
  Fnv1a hash;
  hash.add(version);
  hash.add(contents);
  return hash.value() | 1;  // not 0, as in a new file
}

std::string hexadecimal_of(std::uint64_t value) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[value >> shift & 15];
  return text;
}

std::string host_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return host.data();
}

std::shared_ptr<CacheFile> open_in_folder(const CacheOptions& options, std::int64_t samples, const NodeRanks& ranks,
                                          std::string& why_not) {
  const std::uint64_t contents = hash_of_contents(options.contents);
  // A name with a dot at its start is no class where the folder is one of classes.
  const std::filesystem::path folder = options.folder / (".lockstep-pictures-" + hexadecimal_of(contents));
  // A file for each host, because hosts that share a folder do not see each other's writes in time.
  const std::filesystem::path path = folder / host_name();
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // what fails here fails where the file is opened, with a reason
  Bytes most = options.most;
  if (most == 0) {
    const auto space = std::filesystem::space(folder, error);
    most = {error ? 0 : static_cast<std::int64_t>(space.available / 4)};
  }
  const auto fits = [&](const CacheFile& file) {
    const Bytes wanted = PictureCache::file_bytes(samples, options.most);
    return PictureCache::holds(file, contents, samples) && (options.most == 0 || file.size() == wanted);
  };
  return open_disk_file(path, PictureCache::file_bytes(samples, most), fits, ranks, why_not);
}

}  // namespace

std::shared_ptr<PictureCache> make_picture_cache(const CacheOptions& options, std::int64_t samples,
                                                 const NodeRanks& ranks, std::string& why_not) {
  why_not.clear();
  if (options.kind == CacheKind::none) return nullptr;
  std::shared_ptr<CacheFile> file;
  if (options.kind == CacheKind::ram) {
    const Bytes most =
        options.most == 0 ? Bytes{std::min(available_memory(), installed_memory()).value / 4} : options.most;
    file = make_memory_file(PictureCache::file_bytes(samples, most), ranks, why_not);
  } else {
    file = open_in_folder(options, samples, ranks, why_not);
  }
  if (file == nullptr) return nullptr;
  auto cache = std::make_shared<PictureCache>(std::move(file), samples);
  if (ranks.rank != 0) return cache;
  const std::string failure = reason_of_failure(ranks, [&] { cache->label(hash_of_contents(options.contents)); });
  if (failure.empty()) return cache;
  why_not = failure;
  return nullptr;
}

}  // namespace lockstep::vision
