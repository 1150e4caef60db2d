// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Facts that CMake knew when it configured and built this program; see cmake/Version.cmake. A version is empty if the
/// program does not contain the library.
namespace lockstep::build {

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

}  // namespace lockstep::build
