// SPDX-License-Identifier: Apache-2.0
// What is read of a folder of checkpoints without writing there.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "state/checkpoint_folder.hpp"
#include "state/file.hpp"

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";

/// Returns the step in the name of a checkpoint.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [behind, failure] = std::from_chars(name.data() + step_prefix.size(), end, step);
  const bool is_one = failure == std::errc() && behind == end && step >= 0 && checkpoint_name(step) == name;
  return is_one ? std::optional(step) : std::nullopt;
}

}  // namespace

fs::path checkpoints_of(const fs::path& run_folder) { return run_folder / "checkpoints"; }

std::string checkpoint_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return std::string(step_prefix) + digits;
}

std::vector<CheckpointEntry> list_checkpoints(const fs::path& run_folder) {
  std::vector<CheckpointEntry> found;
  std::error_code error;
  for (fs::directory_iterator entry(checkpoints_of(run_folder), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const auto step = step_of(entry->path().filename().string());
    if (step && entry->symlink_status(gone).type() == fs::file_type::directory) found.push_back({*step, *entry});
  }
  if (error && error.value() != ENOENT) fail("read", checkpoints_of(run_folder), error.value());
  std::sort(found.begin(), found.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step > b.step; });
  return found;
}

std::optional<CheckpointEntry> linked_checkpoint(const fs::path& run_folder, const std::string& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(checkpoints_of(run_folder) / link, error);
  if (error && error.value() != ENOENT && error.value() != EINVAL) {
    fail("read", checkpoints_of(run_folder) / link, error.value());
  }
  const fs::path path = checkpoints_of(run_folder) / target;
  if (error || target.has_parent_path() || !fs::is_directory(path, error)) return std::nullopt;
  return CheckpointEntry{step_of(target.string()).value_or(-1), path};
}

}  // namespace lockstep::state
