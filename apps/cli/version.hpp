// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Facts that CMake knew when it configured and built this program; see cmake/Version.cmake. A version is empty if the
/// program does not contain the library.
namespace lockstep::cli::build {

extern const char* const commit;  ///< abbreviated; "-dirty" if sources were changed since; "unknown" without git
extern const char* const compiler;
extern const char* const build_type;
extern const char* const boost_version;
extern const char* const openssl_version;
extern const char* const hwloc_version;
extern const char* const onednn_version;
extern const char* const zlib_version;
extern const char* const cuda_version;
extern const char* const nccl_version;
extern const char* const cuda_missing;  ///< why CUDA and NCCL are not included

}  // namespace lockstep::cli::build

namespace lockstep::cli {

/// Returns the text for `--version`: the app, its commit and the version of every library, one per line. Works without
/// `World`.
std::string version_text(std::string_view app);

/// Returns the name and the version of the compiler and of every library.
std::vector<std::pair<std::string, std::string>> library_versions();

/// Returns the commit alone, for records of a run.
std::string commit();

}  // namespace lockstep::cli
