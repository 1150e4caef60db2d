// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <variant>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "state/json_leaves.hpp"
#include "state/safetensors.hpp"

namespace lockstep::state {
namespace {

[[noreturn]] void refuse_header(const std::string& file, const std::string& what, ErrorCode code = ErrorCode::corrupt) {
  throw Error(code, file + ": " + what +
                        (code == ErrorCode::corrupt ? "; the file is damaged or incomplete, use another copy" : ""));
}

/// A tensor's object in the header, while it is read.
struct TensorFields {
  std::optional<DType> dtype;
  std::string foreign;  // the name of a dtype that lockstep lacks
  std::optional<std::vector<std::int64_t>> extents;
  std::optional<std::vector<std::int64_t>> range;
};

class HeaderVisitor : public JsonVisitor {
 public:
  HeaderVisitor(const std::string& file, ForeignTensors foreign, std::vector<StoredTensor>& tensors,
                SafetensorsHeader::Metadata& metadata)
      : file_(file), foreign_(foreign), tensors_(tensors), metadata_(metadata) {}

  void begin_object(const Path& path) override {
    if (path.size() != 1 || path[0] != metadata_key) {
      fields_ = {};
    } else if (std::exchange(has_metadata_, true)) {
      refuse_header(file_, "\"__metadata__\" is there twice");
    }
  }
  void scalar(const Path& path, Scalar value) override {
    const auto* text = std::get_if<std::string>(&value);
    if (path.size() == 2 && path[0] == metadata_key && text != nullptr) {
      if (!metadata_.emplace(path[1], *text).second) refuse_header(file_, text_of(path) + " is there twice");
    } else if (path.size() == 2 && path[0] != metadata_key && path[1] == "dtype" && text != nullptr) {
      set(path, fields_.dtype, parse_dtype(path[0], *text));
    } else {
      refuse_header(file_, text_of(path) + " is not what belongs there");
    }
  }
  void list(const Path& path, const std::vector<std::int64_t>& numbers) override {
    if (path.size() != 2 || path[0] == metadata_key) refuse_header(file_, text_of(path) + " is a list");
    if (path[1] == "shape") {
      set(path, fields_.extents, numbers);
    } else if (path[1] == "data_offsets") {
      set(path, fields_.range, numbers);
    } else {
      refuse_header(file_, text_of(path) + " is not what belongs there");
    }
  }
  void end_object(const Path& path) override {
    if (path.size() == 1 && path[0] != metadata_key) add(path[0]);
  }

 private:
  template <typename T>
  void set(const Path& path, std::optional<T>& field, T value) {
    if (field) refuse_header(file_, text_of(path) + " is there twice");
    field = std::move(value);
  }
  /// Returns the dtype; bytes for a foreign one that is not refused.
  [[nodiscard]] DType parse_dtype(const std::string& tensor, const std::string& word) {
    const auto* found = std::find_if(safetensors_dtypes.begin(), safetensors_dtypes.end(),
                                     [&word](const SafetensorsDType& entry) { return entry.name == word; });
    if (found != safetensors_dtypes.end()) return found->dtype;
    if (foreign_ == ForeignTensors::describe && !word.empty()) {
      fields_.foreign = word;
      return DType::uint8;
    }
    refuse_header(
        file_,
        "tensor '" + echo(tensor) + "' has the dtype '" + echo(word) +
            "', and lockstep has F64, F32, F16, BF16, C64, I64, I32, I16, I8, U16, U8 and BOOL; convert the tensor "
            "or leave it out",
        ErrorCode::unsupported);
  }
  /// Takes a tensor of a foreign dtype for its bytes, because the size of an element is not known.
  void describe_foreign() {
    fields_.foreign = echo(fields_.foreign) + ' ' + extents_text(*fields_.extents);
    fields_.extents = {(*fields_.range)[1] - (*fields_.range)[0]};
  }
  void add(const std::string& name) {
    const std::string who = "tensor '" + echo(name) + "' ";
    if (name.empty()) refuse_header(file_, "a tensor has an empty name");
    if (!fields_.dtype || !fields_.extents || !fields_.range) {
      refuse_header(file_, who + "lacks its dtype, shape or data_offsets");
    }
    if (!size_is_valid(*fields_.extents, *fields_.dtype)) {
      refuse_header(file_, who + "has a negative extent, or more than 2^63 bytes");
    }
    const std::vector<std::int64_t>& range = *fields_.range;
    if (range.size() != 2 || range[0] < 0 || range[1] < range[0]) {
      refuse_header(file_, who + "has data_offsets that are no range");
    }
    if (!fields_.foreign.empty()) describe_foreign();
    StoredTensor tensor{name, *fields_.dtype, std::move(*fields_.extents)};
    if (range[1] - range[0] != tensor.bytes().value) {
      refuse_header(file_, who + "has " + std::to_string(tensor.bytes().value) + " bytes by its shape and " +
                               std::to_string(range[1] - range[0]) + " by its data_offsets");
    }
    tensor.offset = {range[0]};
    tensor.foreign = std::move(fields_.foreign);
    tensors_.push_back(std::move(tensor));
  }

  const std::string& file_;
  ForeignTensors foreign_;
  std::vector<StoredTensor>& tensors_;
  SafetensorsHeader::Metadata& metadata_;
  bool has_metadata_ = false;
  TensorFields fields_;
};

void refuse_equal_names(const std::vector<StoredTensor>& tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse_header(file, "tensor '" + echo(*twice) + "' is there twice");
}

/// Sorts the tensors by position and refuses gaps, overlaps, and bytes behind the last one.
void require_no_gaps(std::vector<StoredTensor>& tensors, Bytes data, const std::string& file) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.offset, a.bytes()) < std::pair(b.offset, b.bytes());
  });
  Bytes end;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset != end) {
      refuse_header(file, "tensor '" + echo(tensor.name) + "' begins at " + std::to_string(tensor.offset.value) +
                              (tensor.offset < end ? ", inside the tensor before, which ends at "
                                                   : ", behind a gap: the tensor before ends at ") +
                              std::to_string(end.value));
    }
    end.value += tensor.bytes().value;
    if (end > data) {
      refuse_header(file, "tensor '" + echo(tensor.name) + "' ends at " + std::to_string(end.value) +
                              ", and the file has " + std::to_string(data.value) + " bytes of tensors");
    }
  }
  if (end < data) {
    refuse_header(file, std::to_string(data.value - end.value) + " bytes follow the last tensor, which ends at " +
                            std::to_string(end.value));
  }
}

}  // namespace

Bytes SafetensorsHeader::bytes_needed(std::string_view beginning, Bytes file_bytes, const std::string& file) {
  if (file_bytes.value < length_bytes || std::cmp_less(beginning.size(), length_bytes)) {
    refuse_header(file, "it has " + std::to_string(file_bytes.value) +
                            " bytes, and the length of the header alone takes " + std::to_string(length_bytes));
  }
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(beginning[i]);
  const auto most = static_cast<std::uint64_t>(std::min(file_bytes.value - length_bytes, most_header_bytes.value));
  if (length > most) {
    refuse_header(file, "the header says that it has " + std::to_string(length) + " bytes, and there is room for " +
                            std::to_string(most) + ". Perhaps this is no safetensors file");
  }
  return {length_bytes + static_cast<std::int64_t>(length)};
}

SafetensorsHeader SafetensorsHeader::parse(std::string_view beginning, Bytes file_bytes, const std::string& file,
                                           ForeignTensors foreign) {
  SafetensorsHeader header;
  header.header_bytes_ = bytes_needed(beginning, file_bytes, file);
  if (std::cmp_less(beginning.size(), header.header_bytes_.value)) {
    throw Error(ErrorCode::invalid_argument, file + ": " + std::to_string(beginning.size()) +
                                                 " bytes of the file are given, and its header has " +
                                                 std::to_string(header.header_bytes_.value));
  }
  const auto text = beginning.substr(0, static_cast<std::size_t>(header.header_bytes_.value)).substr(length_bytes);
  if (!text.starts_with('{')) refuse_header(file, "the header does not begin with '{'");
  HeaderVisitor visitor(file, foreign, header.tensors_, header.metadata_);
  walk_json(text, file, 2, visitor);
  refuse_equal_names(header.tensors_, file);
  require_no_gaps(header.tensors_, {file_bytes.value - header.header_bytes_.value}, file);
  for (StoredTensor& tensor : header.tensors_) tensor.offset.value += header.header_bytes_.value;
  return header;
}

}  // namespace lockstep::state
