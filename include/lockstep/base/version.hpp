// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// Version of the headers; CMake reads it from here. docs/versions.md says what each number promises.
#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 1
#define LOCKSTEP_VERSION_PATCH 0

/// For comparisons by the preprocessor: `#if LOCKSTEP_VERSION >= LOCKSTEP_MAKE_VERSION(0, 2, 0)`. Numbers are below
/// 100.
#define LOCKSTEP_MAKE_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define LOCKSTEP_VERSION LOCKSTEP_MAKE_VERSION(LOCKSTEP_VERSION_MAJOR, LOCKSTEP_VERSION_MINOR, LOCKSTEP_VERSION_PATCH)

namespace lockstep {

/// Version of the running library, such as "0.1.0"; a shared library may be newer than the headers.
std::string_view version() noexcept;

}  // namespace lockstep
