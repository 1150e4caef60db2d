// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/types.hpp"

/// Files of named tensors in the format "safetensors": the length of the header as 8 bytes, the header as JSON, and the
/// tensors, row-major and little-endian, without gaps.
/// @source https://github.com/huggingface/safetensors
namespace lockstep::state {

// What reading and writing a header have in common.

/// The format's names of lockstep's dtypes, in the order in which a new file has tensors of these: from large elements
/// to small ones, which aligns all of them, and among equally large ones as the reference implementation has them.
struct SafetensorsDType {
  std::string_view name;
  DType dtype;
};
inline constexpr auto safetensors_dtypes = std::to_array<SafetensorsDType>({{"I64", DType::int64},
                                                                            {"F64", DType::float64},
                                                                            {"C64", DType::complex64},
                                                                            {"F32", DType::float32},
                                                                            {"I32", DType::int32},
                                                                            {"BF16", DType::bfloat16},
                                                                            {"F16", DType::float16},
                                                                            {"U16", DType::uint16},
                                                                            {"I16", DType::int16},
                                                                            {"I8", DType::int8},
                                                                            {"U8", DType::uint8},
                                                                            {"BOOL", DType::boolean}});
inline constexpr std::string_view metadata_key = "__metadata__";
inline constexpr Bytes most_header_bytes = {100'000'000};
inline constexpr std::int64_t length_bytes = 8;  // in front of the header

/// Returns whether a tensor can be this large: false if there are negative extents or more than 2⁶³ − 1 bytes
bool size_is_valid(const std::vector<std::int64_t>& extents, DType dtype);

/// Returns "[2, 3]".
std::string extents_text(const std::vector<std::int64_t>& extents);

/// A tensor in a file.
struct StoredTensor {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> extents;  ///< none: one element
  Bytes offset = {};                  ///< position of its first byte in the file
  /// What the file says of a tensor with another dtype than lockstep's, such as "U64 [2, 3]"; it is here as its bytes.
  std::string foreign = {};

  [[nodiscard]] Count count() const;
  [[nodiscard]] Bytes bytes() const { return {count().value * size_of(dtype)}; }
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// What to do with a tensor of a dtype that lockstep lacks.
enum class ForeignTensors { refuse, describe };

/// What a file of tensors says of itself: which tensors it has, where they are, and texts about them.
class SafetensorsHeader {
 public:
  using Metadata = std::map<std::string, std::string>;

  /// Lays out a new file. The result depends on the arguments' values only, not on the order of the tensors, so that
  /// ranks agree about it without an exchange: by dtype, those with larger elements first, which aligns all of them,
  /// and then by name. The reference implementation makes the same bytes of the same tensors.
  /// @param tensors  their offsets are not read
  /// @throws Error{invalid_argument} that names the tensor: a name that is there twice, empty or "__metadata__", a
  ///         negative extent, more than 2⁶³ bytes; bytes that are not UTF-8; a header beyond 100 MB
  static SafetensorsHeader of(std::vector<StoredTensor> tensors, Metadata metadata = {});

  /// Reads the untrusted header of a file.
  /// @param beginning   the first bytes of the file, at least as many as `bytes_needed` says, or the whole file
  /// @param file_bytes  size of the file
  /// @param file        for error messages
  /// @throws Error{corrupt} that names file, tensor and remedy, for everything that the format forbids;
  ///         Error{unsupported} for a dtype that is no lockstep::DType, if these are refused
  static SafetensorsHeader parse(std::string_view beginning, Bytes file_bytes, const std::string& file,
                                 ForeignTensors foreign = ForeignTensors::refuse);
  /// Returns the number of bytes before the tensors. @param beginning  8 bytes, or a shorter file
  /// @throws Error{corrupt} if the header is longer than the file or 100 MB
  static Bytes bytes_needed(std::string_view beginning, Bytes file_bytes, const std::string& file);

  /// The tensors, in the order in which they are in the file.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  /// Returns the index of a tensor, or -1.
  [[nodiscard]] int index_of(std::string_view name) const;
  /// Bytes before the tensors.
  [[nodiscard]] Bytes header_bytes() const { return header_bytes_; }
  [[nodiscard]] Bytes file_bytes() const;
  /// Returns the bytes before the tensors. @pre made by `of`
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::vector<StoredTensor> tensors_;
  Metadata metadata_;
  Bytes header_bytes_;
  std::string text_;
};

}  // namespace lockstep::state
