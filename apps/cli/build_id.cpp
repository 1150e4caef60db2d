// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "apps/cli/version.hpp"
#include "base/hash.hpp"
#include "base/wrapped.hpp"

namespace lockstep::cli {
namespace {

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += format_text("%02x", std::to_integer<unsigned>(byte));
  return digits;
}

constexpr std::string_view gnu{"GNU\0", 4};  // names of notes have a zero at their end

/// Notes are padded to words of four bytes.
std::size_t whole_words(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string build_id_of(const dl_phdr_info& object) {
  for (const ElfW(Phdr) & segment : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers
    const auto* notes = reinterpret_cast<const std::byte*>(object.dlpi_addr + segment.p_vaddr);
    if (std::string id = build_id_of_notes({notes, segment.p_memsz}); !id.empty()) return id;
  }
  return {};
}

/// Hashes the program's file, block by block. @return "unknown" if it cannot be read
std::string hash_of_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  if (!file) return "unknown";
  std::vector<char> block(std::size_t{1} << 20);
  std::uint64_t hash = 0;
  do {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash = combine(hash, hash_of(std::as_bytes(std::span(block).first(static_cast<std::size_t>(file.gcount())))));
  } while (file);
  return "file " + hexadecimal(std::as_bytes(std::span(&hash, 1)));
}

/// The build IDs of the objects in this process that belong to lockstep. The program itself comes first.
struct Found {
  bool is_first = true;
  std::string ids;
};

int visit(dl_phdr_info* object, std::size_t /*size*/, void* context) {
  Found& found = *static_cast<Found*>(context);
  const std::string_view path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  if (found.is_first) {
    const std::string id = build_id_of(*object);
    found.ids = id.empty() ? hash_of_program() : id;
  } else if (name.starts_with("liblockstep")) {
    found.ids += " and " + std::string(name) + ' ' + build_id_of(*object);
  }
  found.is_first = false;
  return 0;
}

}  // namespace

std::string build_id_of_notes(std::span<const std::byte> notes) {
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    notes = notes.subspan(sizeof header);
    const std::size_t name_bytes = whole_words(header.n_namesz);
    if (name_bytes > notes.size() || header.n_descsz > notes.size() - name_bytes) return {};
    const std::string_view name(reinterpret_cast<const char*>(notes.data()), header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && name == gnu) return hexadecimal(notes.subspan(name_bytes, header.n_descsz));
    const std::size_t all_bytes = name_bytes + whole_words(header.n_descsz);
    if (all_bytes > notes.size()) return {};
    notes = notes.subspan(all_bytes);
  }
  return {};
}

std::string build_id() {
  Found found;
  dl_iterate_phdr(visit, &found);
  return commit() + ", " + found.ids;
}

}  // namespace lockstep::cli
