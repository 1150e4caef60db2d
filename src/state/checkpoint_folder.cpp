// SPDX-License-Identifier: Apache-2.0
#include "state/checkpoint_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "state/verify.hpp"

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";

void rename_entry(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("rename", from, errno);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("remove", path, error.value());
}

fs::path prefixed(const fs::path& path, std::string_view prefix) {
  return path.parent_path() / (std::string(prefix) + path.filename().string());
}

/// Writes a new file to disk.
void write_file(const fs::path& at, const std::string& text) {
  const File file = File::create(at, {static_cast<std::int64_t>(text.size())});
  file.write(std::as_bytes(std::span(text)), {0});
  file.sync();
}

/// Returns the name in a file that stands for a link where the file system has none; empty if it is another file.
std::string name_in_file(const fs::path& at) {
  constexpr std::int64_t longest = 256;
  const File file = File::open_to_read(at);
  std::string name(static_cast<std::size_t>(std::min(file.size().value, longest)), '\0');
  file.read(std::as_writable_bytes(std::span(name)), {0});
  const std::size_t end = name.find('\n');
  return end == std::string::npos ? "" : name.substr(0, end);
}

/// Returns the path, or with -2, -3, … behind it, so that nothing has this name.
fs::path free_name(const fs::path& wish) {
  std::error_code ignored;
  fs::path name = wish;
  for (int number = 2; fs::exists(fs::symlink_status(name, ignored)); ++number) {
    name = wish.string() + '-' + std::to_string(number);
  }
  return name;
}

}  // namespace

fs::path checkpoints_of(const fs::path& run_folder) { return run_folder / "checkpoints"; }

std::string checkpoint_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return std::string(step_prefix) + digits;
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [behind, failure] = std::from_chars(name.data() + step_prefix.size(), end, step);
  const bool is_one = failure == std::errc() && behind == end && step >= 0 && checkpoint_name(step) == name;
  return is_one ? std::optional(step) : std::nullopt;
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
  const fs::path at = checkpoints_of(run_folder) / link;
  fs::path target = fs::read_symlink(at, error);
  std::error_code ignored;
  const bool is_file = error && fs::is_regular_file(at, ignored);
  if (error && !is_file && error.value() != ENOENT && error.value() != EINVAL) fail("read", at, error.value());
  if (is_file) target = name_in_file(at);
  const fs::path path = checkpoints_of(run_folder) / target;
  if (target.empty() || target.has_parent_path() || !fs::is_directory(path, error)) return std::nullopt;
  return CheckpointEntry{step_of(target.string()).value_or(-1), path};
}

fs::path make_run_folder(const fs::path& wish) {
  const fs::path first = wish.has_filename() ? wish : wish.parent_path();  // "runs/train/" is "runs/train"
  const fs::path parent = first.has_parent_path() ? first.parent_path() : ".";
  make_folders(parent);
  fs::path path = first;
  for (int number = 2; ::mkdir(path.c_str(), 0777) != 0; ++number) {
    if (errno != EEXIST) fail("make the folder", path, errno);
    path = first.string() + '-' + std::to_string(number);
  }
  sync_folder(parent);
  return path;
}

CheckpointFolder::CheckpointFolder(const fs::path& run_folder)
    : run_folder_(run_folder), path_(checkpoints_of(run_folder)), lock_(-1) {
  make_folders(path_);
  lock_ = Descriptor(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.get() < 0) fail("read", path_, errno);
  // Some network file systems have no locks; there the user must see to it that a folder has one run.
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Error(ErrorCode::io, "another run is saving checkpoints into '" + echo(path_.string(), 400) +
                                   "'; wait for its end, or choose another folder");
  }
  put_in_order();
}

void CheckpointFolder::put_in_order() {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(*entry);
  }
  if (error) fail("read", path_, error.value());
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (name.starts_with(aside_prefix)) {
      const fs::path former = path_ / name.substr(aside_prefix.size());
      fs::exists(former, error) ? discard(entry) : rename_entry(entry, former);
    } else if (name.starts_with(new_prefix) || name.starts_with(discarded_prefix) || name.starts_with(link_prefix)) {
      remove_tree(entry);
    }
  }
  sync_folder(path_);
}

void CheckpointFolder::discard(const fs::path& checkpoint) {
  // Under its own name, a checkpoint that is half removed would look like a damaged one.
  const fs::path discarded = prefixed(checkpoint, discarded_prefix);
  remove_tree(discarded);
  rename_entry(checkpoint, discarded);
  sync_folder(path_);
  remove_tree(discarded);
}

void CheckpointFolder::link(const std::string& name, std::int64_t step) {
  std::error_code error;
  if (!fs::is_directory(path_ / checkpoint_name(step), error)) {
    throw Error(ErrorCode::invalid_argument, "the link '" + name + "' cannot name " + checkpoint_name(step) +
                                                 ", which is not in '" + echo(path_.string(), 400) + "'");
  }
  link_to(name, checkpoint_name(step));
}

void CheckpointFolder::link_to(const std::string& name, const std::string& target) {
  const fs::path next = path_ / (std::string(link_prefix) + name);
  const fs::path at = path_ / name;
  remove_tree(next);
  if (symlink(target.c_str(), next.c_str()) != 0) write_file(next, target + '\n');
  // A folder is there if the run was copied with what its links name.
  std::error_code error;
  if (fs::symlink_status(at, error).type() == fs::file_type::directory)
    rename_entry(at, free_name(prefixed(at, unused_prefix)));
  rename_entry(next, at);
  sync_folder(path_);
}

std::vector<fs::path> CheckpointFolder::remove_all_but(int keep) {
  if (keep < 1) {
    throw Error(ErrorCode::invalid_argument,
                "the number of checkpoints to keep is " + std::to_string(keep) + "; it must be at least 1");
  }
  std::vector<std::int64_t> named;
  for (const char* link : {"last", "best"})
    if (const auto entry = linked_checkpoint(run_folder_, link)) named.push_back(entry->step);
  std::vector<fs::path> removed;
  int complete = 0;
  for (const CheckpointEntry& entry : list_checkpoints(run_folder_)) {
    const bool is_named = std::find(named.begin(), named.end(), entry.step) != named.end();
    if (complete >= keep && !is_named) {
      discard(entry.path);
      removed.push_back(entry.path);
    } else if (complete < keep && why_refused(entry.path, Check::sizes).empty()) {
      ++complete;
    }
  }
  return removed;
}

std::vector<fs::path> CheckpointFolder::continue_from(std::int64_t step) {
  const auto best = linked_checkpoint(run_folder_, "best");
  link("last", step);
  std::vector<fs::path> unused;
  for (const CheckpointEntry& entry : list_checkpoints(run_folder_)) {
    if (entry.step <= step) continue;
    const fs::path name = free_name(prefixed(entry.path, unused_prefix));
    rename_entry(entry.path, name);
    if (best && best->step == entry.step) link_to("best", name.filename().string());
    unused.push_back(name);
  }
  sync_folder(path_);
  return unused;
}

StateFile::Record record_of(const SafetensorsHeader& header, std::vector<WrittenPart> parts) {
  const std::vector<Checksum> sums = tensor_checksums(header, std::move(parts));
  StateFile::Record record{.whole = file_checksum(header, sums), .tensors = {}};
  for (std::size_t i = 0; i < sums.size(); ++i) record.tensors[header.tensors()[i].name] = sums[i].crc;
  return record;
}

NewCheckpoint::NewCheckpoint(CheckpointFolder& folder, std::int64_t step)
    : folder_(folder), step_(step), path_(folder.path_ / (std::string(new_prefix) + checkpoint_name(step))) {
  remove_tree(path_);
  if (::mkdir(path_.c_str(), 0777) != 0) fail("make the folder", path_, errno);
}

NewCheckpoint::~NewCheckpoint() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path NewCheckpoint::commit(StateFile state) {
  state.step = step_;
  for (const auto& [name, record] : state.files) {
    const File file = File::open_to_read(path_ / name);
    if (file.size() != record.whole.bytes) {
      throw Error(ErrorCode::corrupt, "'" + echo((path_ / name).string(), 400) + "' has " +
                                          std::to_string(file.size().value) + " bytes, and state.json records " +
                                          std::to_string(record.whole.bytes.value) + "; record what was written");
    }
    file.sync();
  }
  write_file(path_ / state_file_name, state.text());
  sync_folder(path_);

  fs::path name = folder_.path_ / checkpoint_name(step_);
  const fs::path aside = prefixed(name, aside_prefix);
  std::error_code error;
  const bool replaces = fs::exists(fs::symlink_status(name, error));
  if (replaces) {
    remove_tree(aside);
    rename_entry(name, aside);
  }
  if (std::rename(path_.c_str(), name.c_str()) != 0) {
    const int reason = errno;
    if (replaces) rename_entry(aside, name);
    fail("rename", path_, reason);
  }
  sync_folder(folder_.path_);
  committed_ = name;
  folder_.link("last", step_);
  if (replaces) folder_.discard(aside);
  return name;
}

}  // namespace lockstep::state
