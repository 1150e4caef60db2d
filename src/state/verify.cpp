// SPDX-License-Identifier: Apache-2.0
#include "state/verify.hpp"

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "state/checkpoint_folder.hpp"
#include "state/safetensors_file.hpp"

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

std::string quoted_path(const fs::path& path) { return "'" + echo(path.string(), 400) + "'"; }

[[noreturn]] void refuse_checkpoint(const fs::path& file, const std::string& what) {
  throw Error(ErrorCode::corrupt, quoted_path(file) + ' ' + what + "; resume from another checkpoint");
}

std::string read_state_file(const fs::path& path) {
  constexpr std::int64_t most = std::int64_t{64} << 20;
  const File file = File::open_to_read(path);
  const Bytes size = file.size();
  if (size.value > most) refuse_checkpoint(path, "is longer than " + std::to_string(most) + " bytes");
  std::string text(static_cast<std::size_t>(size.value), '\0');
  file.read(std::as_writable_bytes(std::span(text)), {0});
  return text;
}

void compare(const fs::path& file, const std::string& of, std::uint32_t is, std::uint32_t recorded) {
  if (is == recorded) return;
  refuse_checkpoint(
      file, "has the CRC-32 " + hexadecimal(is) + " in " + of + ", and state.json records " + hexadecimal(recorded));
}

void verify_tensors(const fs::path& file, const StateFile::Record& record) {
  const SafetensorsReader reader(file);
  Checksum whole = reader.header_checksum();
  for (std::size_t i = 0; i < reader.header().tensors().size(); ++i) {
    const std::string& name = reader.header().tensors()[i].name;
    const auto recorded = record.tensors.find(name);
    if (recorded == record.tensors.end()) {
      refuse_checkpoint(file, "has a tensor '" + echo(name) + "', which state.json does not record");
    }
    const Checksum sum = reader.checksum(static_cast<int>(i));
    compare(file, "tensor '" + echo(name) + "'", sum.crc, recorded->second);
    whole = joined(whole, sum);
  }
  if (reader.header().tensors().size() != record.tensors.size()) {
    refuse_checkpoint(file, "has " + std::to_string(reader.header().tensors().size()) +
                                " tensors, and state.json records " + std::to_string(record.tensors.size()));
  }
  compare(file, "the whole", whole.crc, record.whole.crc);
}

/// Checks that the folder has not got another checkpoint's name, and no file of tensors without a record.
void verify_folder(const fs::path& checkpoint, const StateFile& state) {
  std::error_code error;
  const fs::path real = fs::canonical(checkpoint, error);  // `last` may lead to it
  const std::string name = (error ? checkpoint : real).filename().string();
  if (const auto step = step_of(name); step && *step != state.step) {
    refuse_checkpoint(checkpoint, "has the state of step " + std::to_string(state.step) +
                                      ", so it was copied or renamed: call it '" + checkpoint_name(state.step) + "'");
  }
  for (fs::directory_iterator entry(checkpoint, error), end; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (entry->path().extension() == ".safetensors" && !state.files.contains(file))
      refuse_checkpoint(entry->path(), "is a file that state.json does not record");
  }
  if (error) fail("read", checkpoint, error.value());
}

}  // namespace

StateFile verify_checkpoint(const fs::path& checkpoint, Check check) {
  const fs::path state_path = checkpoint / state_file_name;
  StateFile state = StateFile::parse(read_state_file(state_path), quoted_path(state_path));
  verify_folder(checkpoint, state);
  for (const auto& [name, record] : state.files) {
    if (fs::path(name).has_parent_path() || name == ".." || name == ".") {
      refuse_checkpoint(state_path, "records a file '" + echo(name) + "' outside the checkpoint");
    }
    const fs::path path = checkpoint / name;
    const Bytes size = File::open_to_read(path).size();
    if (size != record.whole.bytes) {
      refuse_checkpoint(path, "has " + std::to_string(size.value) + " bytes, and state.json records " +
                                  std::to_string(record.whole.bytes.value));
    }
    if (check == Check::checksums) verify_tensors(path, record);
  }
  return state;
}

std::string why_refused(const fs::path& checkpoint, Check check) {
  try {
    verify_checkpoint(checkpoint, check);
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

FoundCheckpoint newest_good_checkpoint(const fs::path& run_folder) {
  FoundCheckpoint found;
  for (const CheckpointEntry& entry : list_checkpoints(run_folder)) {
    try {
      verify_checkpoint(entry.path, Check::checksums);
      found.path = entry.path;
      break;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported) throw;  // it is good, so a fresh start would throw a run away
      found.refused.push_back(error.message());
    }
  }
  return found;
}

fs::path locate_checkpoint(const std::string& wish, const fs::path& run_folder) {
  std::error_code error;
  const bool is_link = wish == "last" || wish == "best";
  fs::path path = wish;
  if (is_link || fs::is_directory(checkpoints_of(path), error)) {
    const fs::path run = is_link ? run_folder : path;
    const std::string link = is_link ? wish : "last";
    if (const auto linked = linked_checkpoint(run, link)) return linked->path;
    throw Error(ErrorCode::io,
                quoted_path(checkpoints_of(run)) + " has no checkpoint '" + link +
                    (link == "best" ? "', which the first evaluation makes; give 'last', " : "'; give ") +
                    "the path of a checkpoint or of another run");
  }
  if (fs::is_directory(path, error) && fs::exists(path / state_file_name, error)) return path;
  if (const std::string why = why_no_folder(path.string()); why.starts_with("cannot"))
    throw Error(ErrorCode::io,
                quoted_path(path) + ' ' + why + "; give the path of a checkpoint that this user may read");
  const bool is_weights = path.extension() == ".safetensors";
  throw Error(ErrorCode::io, (fs::exists(path, error) ? quoted_path(path) + " is no checkpoint; give "
                                                      : "there is no checkpoint " + quoted_path(path) + "; give ") +
                                 (is_weights ? "the folder that the file is in, " : "") +
                                 "'last', 'best', 'auto' or the path of a checkpoint (a folder step-…) or of a run");
}

FoundCheckpoint find_checkpoint(const std::string& wish, const fs::path& run_folder) {
  if (wish == "auto") return newest_good_checkpoint(run_folder);
  const fs::path path = locate_checkpoint(wish, run_folder);
  verify_checkpoint(path, Check::checksums);
  return {path, {}};
}

}  // namespace lockstep::state
