// SPDX-License-Identifier: Apache-2.0
#include "state/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::state {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and nothing here swaps bytes");

/// Returns the entry of a dtype, whose address gives the order; the end of the list if the format lacks it.
const SafetensorsDType* entry_of(DType dtype) {
  return std::find_if(safetensors_dtypes.begin(), safetensors_dtypes.end(),
                      [dtype](const SafetensorsDType& entry) { return entry.dtype == dtype; });
}

[[noreturn]] void refuse_new(const StoredTensor& tensor, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "a file cannot hold the tensor '" + echo(tensor.name) + "': " + what);
}

/// Sorts the tensors, checks them, and counts their offsets from the end of the header.
void lay_out(std::vector<StoredTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(entry_of(a.dtype), std::string_view(a.name)) <
           std::pair(entry_of(b.dtype), std::string_view(b.name));
  });
  std::map<std::string_view, int> times;
  std::int64_t end = 0;
  for (StoredTensor& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == metadata_key) refuse_new(tensor, "choose another name");
    if (entry_of(tensor.dtype) == safetensors_dtypes.end())
      refuse_new(tensor, "the format has no " + std::string(name(tensor.dtype)) + "; save its parts");
    if (++times[tensor.name] == 2) refuse_new(tensor, "another tensor has the same name; choose another one");
    const bool fits =
        size_is_valid(tensor.extents, tensor.dtype) &&
        tensor.bytes().value <= std::numeric_limits<std::int64_t>::max() - end - most_header_bytes.value - length_bytes;
    if (!fits) refuse_new(tensor, "an extent is negative, or the file would have more than 2^63 bytes");
    tensor.offset = {end};
    end += tensor.bytes().value;
  }
}

/// Returns the length and the header, padded with spaces to a multiple of 8 bytes, which aligns the tensors.
std::string header_text(const std::vector<StoredTensor>& tensors, const SafetensorsHeader::Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  for (const StoredTensor& tensor : tensors) {
    const std::int64_t begin = tensor.offset.value;
    // emplace_back, because a lookup by name in ordered JSON takes linear time
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        tensor.name, nlohmann::ordered_json{{"dtype", entry_of(tensor.dtype)->name},
                                            {"shape", tensor.extents},
                                            {"data_offsets", {begin, begin + tensor.bytes().value}}});
  }
  std::string json;
  try {
    json = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::invalid_argument,
                "the name or the metadata of a tensor are not UTF-8, which files of tensors require; change them");
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (std::cmp_greater(json.size(), most_header_bytes.value)) {
    throw Error(ErrorCode::invalid_argument, "the header of a file of tensors would have " +
                                                 std::to_string(json.size()) + " bytes, and the format allows " +
                                                 std::to_string(most_header_bytes.value) + "; use several files");
  }
  std::string text;
  for (int i = 0; i < length_bytes; ++i) text += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return text + json;
}

}  // namespace

bool size_is_valid(const std::vector<std::int64_t>& extents, DType dtype) {
  std::int64_t bytes = size_of(dtype);
  bool is_empty = false;
  bool is_too_large = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) return false;
    is_empty = is_empty || extent == 0;
    is_too_large = is_too_large || __builtin_mul_overflow(bytes, extent, &bytes);
  }
  return is_empty || !is_too_large;
}

std::string extents_text(const std::vector<std::int64_t>& extents) {
  std::string text;
  for (const std::int64_t extent : extents) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return '[' + text + ']';
}

Count StoredTensor::count() const {
  // An empty tensor's other extents may have any product.
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return {0};
  Count count{1};
  for (const std::int64_t extent : extents) count.value *= extent;
  return count;
}

SafetensorsHeader SafetensorsHeader::of(std::vector<StoredTensor> tensors, Metadata metadata) {
  lay_out(tensors);
  SafetensorsHeader header;
  header.text_ = header_text(tensors, metadata);
  header.header_bytes_ = {static_cast<std::int64_t>(header.text_.size())};
  for (StoredTensor& tensor : tensors) tensor.offset.value += header.header_bytes_.value;
  header.tensors_ = std::move(tensors);
  header.metadata_ = std::move(metadata);
  return header;
}

int SafetensorsHeader::index_of(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [name](const StoredTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? -1 : static_cast<int>(found - tensors_.begin());
}

Bytes SafetensorsHeader::file_bytes() const {
  if (tensors_.empty()) return header_bytes_;
  return {tensors_.back().offset.value + tensors_.back().bytes().value};
}

}  // namespace lockstep::state
