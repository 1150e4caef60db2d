// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep::state {

/// Receives the parts of a JSON text from `walk_json`. A path has the keys that lead to a part.
class JsonVisitor {
 public:
  using Path = std::vector<std::string>;
  using Scalar = std::variant<std::int64_t, double, std::string>;

  JsonVisitor() = default;
  JsonVisitor(const JsonVisitor&) = delete;
  JsonVisitor& operator=(const JsonVisitor&) = delete;
  virtual ~JsonVisitor() = default;

  virtual void begin_object(const Path& path) = 0;
  virtual void scalar(const Path& path, Scalar value) = 0;
  virtual void list(const Path& path, const std::vector<std::int64_t>& numbers) = 0;
  virtual void end_object(const Path& path) = 0;
};

/// Reads untrusted JSON of the plain kind that checkpoints consist of: an object of objects, whose leaves are texts,
/// numbers, and lists of whole numbers. It makes no tree of the text, so that memory stays below a small multiple of
/// it. A visitor finds keys that occur twice.
/// @param deepest  maximum number of objects inside each other
/// @param file     for error messages
/// @throws Error{corrupt} that names the file and the place: not JSON, nested deeper, true, false or null, a list of
///         something else, a whole number beyond 64 bits with sign; what the visitor throws
void walk_json(std::string_view text, const std::string& file, std::size_t deepest, JsonVisitor& visitor);

/// Returns the keys of a path as messages name them: "files"."model.safetensors".
std::string text_of(const JsonVisitor::Path& path);

}  // namespace lockstep::state
