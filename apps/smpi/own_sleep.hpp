// SPDX-License-Identifier: Apache-2.0
#pragma once

// smpicxx replaces sleep by a macro of one argument, which a member function of that name and two does not survive.
// Nothing here sleeps by the function of that name. Included in front of every file.
#undef sleep
