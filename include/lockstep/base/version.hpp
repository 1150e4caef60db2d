// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L
#error \
    "lockstep needs C++20: compile with -std=c++20, or with CMake target_compile_features(<target> PRIVATE cxx_std_20)"
#endif

#include <string_view>

// The version of these headers, which CMake reads from here. docs/versions.md says what each number promises.
#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 1
#define LOCKSTEP_VERSION_PATCH 0

/// A version as a number that the preprocessor can compare: `#if LOCKSTEP_VERSION >= LOCKSTEP_MAKE_VERSION(0, 2, 0)`.
/// Each of the three numbers is below 100.
#define LOCKSTEP_MAKE_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define LOCKSTEP_VERSION LOCKSTEP_MAKE_VERSION(LOCKSTEP_VERSION_MAJOR, LOCKSTEP_VERSION_MINOR, LOCKSTEP_VERSION_PATCH)

namespace lockstep {

/// Version of the running library, such as "0.1.0"; a shared library may be newer than the headers.
std::string_view version() noexcept;

}  // namespace lockstep
