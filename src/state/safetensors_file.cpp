// SPDX-License-Identifier: Apache-2.0
#include "state/safetensors_file.hpp"

#include <algorithm>
#include <tuple>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::state {
namespace {

std::string quoted(const std::filesystem::path& path) { return "'" + echo(path.string(), 400) + "'"; }

SafetensorsHeader read_header(const File& file, ForeignTensors foreign) {
  const Bytes size = file.size();
  std::string beginning(static_cast<std::size_t>(std::min<std::int64_t>(size.value, 8)), '\0');
  const auto read_all = [&] { file.read(std::as_writable_bytes(std::span(beginning)), {0}); };
  read_all();
  const Bytes needed = SafetensorsHeader::bytes_needed(beginning, size, quoted(file.path()));
  beginning.resize(static_cast<std::size_t>(needed.value));
  read_all();
  return SafetensorsHeader::parse(beginning, size, quoted(file.path()), foreign);
}

/// Checks a range of elements that is read or written, and returns where it begins in the file.
Bytes position_of(const File& file, const StoredTensor& tensor, Count first, const ConstBuffer& elements) {
  std::string problem;
  if (elements.dtype != tensor.dtype) {
    problem = "has the dtype " + std::string(name(tensor.dtype)) + ", and the memory " +
              std::string(name(elements.dtype)) + "; give memory of the same dtype";
  } else if (elements.kind == MemoryKind::device) {
    problem = "cannot be copied from or to the memory of a device; copy it to the host first";
  } else if (first.value < 0 || elements.count.value < 0 || first > tensor.count() ||
             elements.count.value > tensor.count().value - first.value) {
    problem = "has " + std::to_string(tensor.count().value) + " elements, and not " +
              std::to_string(elements.count.value) + " from element " + std::to_string(first.value) + " on";
  }
  if (!problem.empty()) {
    throw Error(ErrorCode::invalid_argument, quoted(file.path()) + ": tensor '" + echo(tensor.name) + "' " + problem);
  }
  return {tensor.offset.value + first.value * size_of(tensor.dtype)};
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path, ForeignTensors foreign)
    : file_(File::open_to_read(path)), header_(read_header(file_, foreign)) {}

int SafetensorsReader::index_of(std::string_view name) const {
  const int index = header_.index_of(name);
  if (index >= 0) return index;
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : header_.tensors()) names.emplace_back(tensor.name);
  throw Error(ErrorCode::invalid_argument, quoted(file_.path()) + " has no tensor '" + echo(name) + "'" +
                                               did_you_mean(name, names) + "; it has " + std::to_string(names.size()));
}

void SafetensorsReader::read(int tensor, Count first, const Buffer& to) const {
  const Bytes position = position_of(file_, header_.tensors().at(static_cast<std::size_t>(tensor)), first, to);
  file_.read({static_cast<std::byte*>(to.data), static_cast<std::size_t>(to.bytes().value)}, position);
}

Checksum SafetensorsReader::checksum_of_range(Bytes begin, Bytes bytes) const {
  std::vector<std::byte> memory(static_cast<std::size_t>(std::min<std::int64_t>(bytes.value, std::int64_t{1} << 20)));
  Checksum sum;
  while (sum.bytes < bytes) {
    const auto next = std::min<std::int64_t>(bytes.value - sum.bytes.value, static_cast<std::int64_t>(memory.size()));
    const std::span<std::byte> part(memory.data(), static_cast<std::size_t>(next));
    file_.read(part, {begin.value + sum.bytes.value});
    sum = joined(sum, checksum_of(part));
  }
  return sum;
}

Checksum SafetensorsReader::checksum(int tensor) const {
  const StoredTensor& stored = header_.tensors().at(static_cast<std::size_t>(tensor));
  return checksum_of_range(stored.offset, stored.bytes());
}

Checksum SafetensorsReader::header_checksum() const { return checksum_of_range({0}, header_.header_bytes()); }

void SafetensorsWriter::create(const std::filesystem::path& path, const SafetensorsHeader& header) {
  const File file = File::create(path, header.file_bytes());
  file.write(std::as_bytes(std::span(header.text())), {0});
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, SafetensorsHeader header)
    : file_(File::open_to_write(path)), header_(std::move(header)) {
  if (file_.size() == header_.file_bytes()) return;
  throw Error(ErrorCode::corrupt, quoted(path) + " has " + std::to_string(file_.size().value) + " bytes instead of " +
                                      std::to_string(header_.file_bytes().value) +
                                      "; the ranks must create and open it with the same tensors");
}

WrittenPart SafetensorsWriter::write(int tensor, Count first, const ConstBuffer& elements) const {
  const Bytes position = position_of(file_, header_.tensors().at(static_cast<std::size_t>(tensor)), first, elements);
  const std::span bytes(static_cast<const std::byte*>(elements.data), static_cast<std::size_t>(elements.bytes().value));
  file_.write(bytes, position);
  return {tensor, first, checksum_of(bytes)};
}

std::vector<Checksum> tensor_checksums(const SafetensorsHeader& header, std::vector<WrittenPart> parts) {
  std::sort(parts.begin(), parts.end(), [](const WrittenPart& a, const WrittenPart& b) {
    return std::tuple(a.tensor, a.first, a.sum.bytes) < std::tuple(b.tensor, b.first, b.sum.bytes);
  });
  std::vector<Checksum> sums(header.tensors().size());
  const auto refuse = [&](std::size_t tensor, const char* what) {
    throw Error(ErrorCode::mismatch, "tensor '" + echo(header.tensors()[tensor].name) + "' has elements that " + what +
                                         " rank has written; the ranks' parts must cover it exactly once");
  };
  for (const WrittenPart& part : parts) {
    const auto tensor = static_cast<std::size_t>(part.tensor);
    const std::int64_t begin = part.first.value * size_of(header.tensors().at(tensor).dtype);
    if (begin < sums[tensor].bytes.value) refuse(tensor, "more than one");
    if (begin > sums[tensor].bytes.value) refuse(tensor, "no");
    sums[tensor] = joined(sums[tensor], part.sum);
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i].bytes != header.tensors()[i].bytes()) refuse(i, "no");
  return sums;
}

Checksum file_checksum(const SafetensorsHeader& header, const std::vector<Checksum>& tensors) {
  Checksum sum = checksum_of(std::as_bytes(std::span(header.text())));
  for (const Checksum& tensor : tensors) sum = joined(sum, tensor);
  return sum;
}

std::vector<TensorPart> tensor_parts(const Layout& layout, const LayoutPart& part) {
  std::vector<TensorPart> parts;
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorSlot& slot = layout.tensors()[i];
    const LayoutPart inside = common(part, {slot.offset, slot.count});
    if (inside.count.value == 0) continue;
    parts.push_back({static_cast<int>(i), {inside.offset.value - slot.offset.value}, inside.count});
  }
  return parts;
}

}  // namespace lockstep::state
