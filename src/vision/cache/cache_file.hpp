// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/types.hpp"

/// Memory that the processes of a node share for decoded pictures.
namespace lockstep::vision {

/// A sparse file that several processes map. It contains zeros at first, and gets memory or space piece by piece.
class CacheFile {
 public:
  CacheFile() = default;
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;
  virtual ~CacheFile() = default;

  [[nodiscard]] virtual std::byte* data() const = 0;
  [[nodiscard]] virtual Bytes size() const = 0;
  /// Backs a range of whole pages, so that no process gets a SIGBUS later.
  /// @throws Error{unsupported} or Error{io} if the node has not enough memory or space left
  virtual void provide(std::int64_t offset, Bytes bytes) = 0;
  /// Whether its contents may be older than these processes, so that a crash of the machine may have damaged them.
  [[nodiscard]] virtual bool is_lasting() const = 0;
};

/// The ranks of a node, as a cache needs to know them.
struct NodeRanks {
  int rank = 0;
  int size = 1;
  /// Returns the texts of all ranks of the node, by rank. Collective over them. Not called for a single rank.
  std::function<std::vector<std::string>(const std::string& own)> gather = {};
};

/// Makes a file in memory, without a name, which disappears with the last process that has it. Collective.
/// @param bytes    the value of rank 0 counts. It costs addresses only, until memory is provided
/// @param why_not  set to the reason of the first rank that cannot take part, with its number; else empty
/// @return null on a rank that cannot take part; others use the file without it
std::shared_ptr<CacheFile> make_memory_file(Bytes bytes, const NodeRanks& ranks, std::string& why_not);

/// Opens a file on disk, or makes it if there is none, or one that `fits` refuses. Collective.
/// @param path   the same on all ranks; in a folder that exists
/// @param bytes  of a file that is made
/// @param fits   looks at the contents of a file that was there, of at least one page
/// @param why_not, return value  as make_memory_file()
std::shared_ptr<CacheFile> open_disk_file(const std::filesystem::path& path, Bytes bytes,
                                          const std::function<bool(const CacheFile& file)>& fits,
                                          const NodeRanks& ranks, std::string& why_not);

}  // namespace lockstep::vision
