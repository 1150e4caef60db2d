// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::architecture {

/// One row of the table of rooms.
struct Room {
  int floor = 0;
  std::set<std::string> may_include;     ///< other rooms
  std::set<std::string> vendor_headers;  ///< vendor libraries, as vendor_of() names them
};

struct SourceFile {
  std::string path;  ///< relative to the repository: include/lockstep/base/error.hpp
  std::string text;
};

/// The rooms, and which rooms each may include.
class House {
 public:
  /// Reads the first Markdown table whose header starts with `| Floor | Room |`. A cell lists rooms, or says `floors
  /// 0–3` for all rooms on these floors, or `–` for none.
  /// @throws std::runtime_error if there is no such table or a cell names a room that is not in it
  static House parse(std::string_view markdown);

  [[nodiscard]] const std::map<std::string, Room>& rooms() const { return rooms_; }
  /// Lets a public header of a divided room belong to the inner room that implements it: include/lockstep/nn/model.hpp
  /// to `nn/run`, because src/nn/run/model.cpp includes it first.
  void find_public_headers(std::span<const SourceFile> files);
  /// Returns the room to which a file belongs; none for a file outside of all rooms.
  [[nodiscard]] std::optional<std::string> room_of(std::string_view path) const;
  /// Returns one message for each violation in the file.
  [[nodiscard]] std::vector<std::string> violations(const SourceFile& file) const;
  /// Returns one message for each arrow of the table that does not go down. Inside a suite, such as `ops` and `ops/…`,
  /// arrows on one floor are allowed as long as they form no cycle.
  [[nodiscard]] std::vector<std::string> arrows_that_do_not_go_down() const;

 private:
  [[nodiscard]] std::optional<std::string> complaint_about_include(const SourceFile& file, const std::string& room,
                                                                   const std::string& argument) const;
  /// Returns whether `to` is reached from `from` over any number of the table's arrows.
  [[nodiscard]] bool reaches(const std::string& from, const std::string& to) const;
  std::map<std::string, Room> rooms_;
  std::map<std::string, std::string> homes_;  // the inner rooms of public headers: "nn/model.hpp" → "nn/run"
};

/// Returns the vendor library of a header ("mpi", "cuda", "nccl", "cudnn", "dnnl", "hwloc", "spng", …); none for
/// others.
std::optional<std::string> vendor_of(std::string_view header);

}  // namespace lockstep::architecture
