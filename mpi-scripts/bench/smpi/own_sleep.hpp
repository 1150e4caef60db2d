// SPDX-License-Identifier: Apache-2.0
#pragma once

// smpicxx replaces sleep by a macro with one argument, which breaks a member function of that name with two. No code
// here calls the function sleep. This header is included before every file.
#undef sleep
