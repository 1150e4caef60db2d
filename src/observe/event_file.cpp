// SPDX-License-Identifier: Apache-2.0
#include "observe/event_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <system_error>

#include "base/nearest.hpp"
#include "base/protobuf.hpp"
#include "lockstep/base/error.hpp"
#include "observe/output_file.hpp"

namespace lockstep::observe {
namespace {

constexpr std::string_view name_prefix = "events.out.tfevents.";

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  constexpr std::uint32_t reversed_polynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? reversed_polynomial : 0);
    table[byte] = crc;
  }
  return table;
}();

/// Returns an unsigned number as little-endian bytes.
template <typename Unsigned>
std::string little_endian(Unsigned number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFF);
  return bytes;
}

/// Returns an event at this moment. Field numbers: tensorboard/compat/proto/{event,summary}.proto.
ProtobufMessage event_of(std::int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return ProtobufMessage().real(1, now.count()).integer(2, step);
}

/// Returns a path for a new file. TensorBoard reads the files of a folder by name, of which the first part is a time in
/// seconds, so the time is later than that of any file there.
std::filesystem::path new_path(const std::filesystem::path& folder) {
  std::int64_t time =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(name_prefix)) continue;
    std::int64_t other = 0;
    std::from_chars(name.data() + name_prefix.size(), name.data() + name.size(), other);
    time = std::max(time, other + 1);
  }
  std::array<char, 256> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return folder /
         (std::string(name_prefix) + std::to_string(time) + '.' + host.data() + '.' + std::to_string(getpid()) + ".0");
}

std::filesystem::path made_path(const std::filesystem::path& folder) {
  try {
    std::filesystem::create_directories(folder);
    return new_path(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(ErrorCode::io, "cannot write " + echo(folder.string(), 400) + ": " + error.code().message());
  }
}

}  // namespace

std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  crc = ~crc;
  return std::rotr(crc, 15) + 0xA282EAD8;
}

std::string record_of(std::string_view bytes) {
  const std::string length = little_endian(static_cast<std::uint64_t>(bytes.size()));
  return length + little_endian(masked_crc(length)) + std::string(bytes) + little_endian(masked_crc(bytes));
}

EventFile::EventFile(const std::filesystem::path& folder)
    : path_(made_path(folder)), file_(std::make_unique<OutputFile>(path_, OutputFile::Mode::truncate)) {
  file_->write(record_of(event_of(0).text(3, "brain.Event:2").bytes()));
}
EventFile::~EventFile() = default;
EventFile::EventFile(EventFile&&) noexcept = default;
EventFile& EventFile::operator=(EventFile&&) noexcept = default;

void EventFile::start_after(std::int64_t step) {
  constexpr std::int64_t start = 1;  // SessionLog::START
  file_->write(record_of(event_of(step + 1).message(7, ProtobufMessage().integer(1, start)).bytes()));
}

void EventFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  ProtobufMessage summary;
  for (const Scalar& scalar : scalars)
    summary.message(1, ProtobufMessage().text(1, scalar.tag).real(2, static_cast<float>(scalar.value)));
  file_->write(record_of(event_of(step).message(5, summary).bytes()));
}

void EventFile::write(std::int64_t step, const EncodedPicture& picture) {
  constexpr std::int64_t rgb = 3;
  const std::string_view png(reinterpret_cast<const char*>(picture.png.data()), picture.png.size());
  const ProtobufMessage image =
      ProtobufMessage().integer(1, picture.height).integer(2, picture.width).integer(3, rgb).text(4, png);
  file_->write(
      record_of(event_of(step)
                    .message(5, ProtobufMessage().message(1, ProtobufMessage().text(1, picture.tag).message(4, image)))
                    .bytes()));
}

}  // namespace lockstep::observe
