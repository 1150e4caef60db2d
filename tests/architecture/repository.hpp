// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "architecture/house.hpp"

namespace lockstep::architecture {

/// The folder with the sources of this build.
std::filesystem::path repository();
/// Returns the contents of a file; empty if there is none.
std::string text_of(const std::filesystem::path& path);
/// Returns the C++ and CUDA sources of the product, in include, src, kernels and apps, and those of the programs in
/// mpi-scripts/bench that compare it with others.
std::vector<SourceFile> source_files();

}  // namespace lockstep::architecture
