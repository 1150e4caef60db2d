// SPDX-License-Identifier: Apache-2.0
#include "architecture/repository.hpp"

#include <fstream>
#include <iterator>

namespace lockstep::architecture {

namespace fs = std::filesystem;

fs::path repository() { return LOCKSTEP_SOURCE_DIR; }

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<SourceFile> source_files() {
  std::vector<SourceFile> files;
  for (const char* root :
       {"include", "src", "kernels", "apps", "bindings", "mpi-scripts/bench/peers", "mpi-scripts/bench/smpi"}) {
    if (!fs::exists(repository() / root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(repository() / root)) {
      const fs::path extension = entry.path().extension();
      if (extension == ".hpp" || extension == ".cpp" || extension == ".cu" || extension == ".cuh") {
        files.push_back({entry.path().lexically_relative(repository()).string(), text_of(entry.path())});
      }
    }
  }
  return files;
}

}  // namespace lockstep::architecture
