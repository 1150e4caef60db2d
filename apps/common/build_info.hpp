// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What CMake knew when it configured and built this program; see cmake/Version.cmake. Empty where a library is not in
/// it.
namespace lockstep::build {

extern const char* const commit;  ///< abbreviated, "-dirty" where the sources were changed since; "unknown" without git
extern const char* const compiler;
extern const char* const build_type;
extern const char* const boost_version;
extern const char* const openssl_version;
extern const char* const hwloc_version;
extern const char* const onednn_version;
extern const char* const zlib_version;
extern const char* const cuda_version;
extern const char* const nccl_version;
extern const char* const cuda_missing;  ///< why CUDA and NCCL are not in it

}  // namespace lockstep::build
