// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/source_line.hpp"

#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <sstream>

namespace emulated_gpu {
namespace {

/// The file from which code at an address was loaded, and the offset in the file.
struct PlaceInFile {
  std::uintptr_t address;
  std::string file;
  std::uintptr_t offset = 0;
};

PlaceInFile place_in_file(std::uintptr_t address) {
  PlaceInFile place{.address = address, .file = {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* result) {
        auto& wanted = *static_cast<PlaceInFile*>(result);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& segment = object->dlpi_phdr[i];
          const std::uintptr_t offset = wanted.address - object->dlpi_addr;
          if (segment.p_type != PT_LOAD || offset - segment.p_vaddr >= segment.p_memsz) continue;
          const bool is_program = object->dlpi_name == nullptr || object->dlpi_name[0] == '\0';
          wanted.file = is_program ? "/proc/" + std::to_string(getpid()) + "/exe" : object->dlpi_name;
          wanted.offset = offset;
          return 1;
        }
        return 0;
      },
      &place);
  return place;
}

std::string without_folder(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string source_line(const void* return_address) {
  const PlaceInFile place = place_in_file(reinterpret_cast<std::uintptr_t>(return_address) - 1);
  std::ostringstream command;
  command << "addr2line -e '" << place.file << "' 0x" << std::hex << place.offset << " 2>/dev/null";
  std::array<char, 1024> answer{};
  if (FILE* pipe = place.file.empty() ? nullptr : popen(command.str().c_str(), "r")) {
    if (std::fgets(answer.data(), static_cast<int>(answer.size()), pipe) == nullptr) answer[0] = '\0';
    pclose(pipe);
  }
  std::string line(answer.data());
  line = without_folder(line.substr(0, line.find_first_of(" \n")));
  if (!line.empty() && !line.starts_with("?")) return line;
  std::ostringstream hexadecimal;
  hexadecimal << return_address;
  return hexadecimal.str();
}

std::string source_line(const std::source_location& place) {
  return without_folder(place.file_name()) + ":" + std::to_string(place.line());
}

}  // namespace emulated_gpu
