// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks a function that is compiled for several instruction sets; the loader takes the best that the processor has.
// -ffp-contract=off makes all of them round alike. Not under sanitizers, whose runtime is not up when the loader
// chooses.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && \
    defined(__GNUC__) && !defined(__clang__)
#define LOCKSTEP_VECTORISED [[gnu::target_clones("avx512f", "avx2", "default")]]
// The same with instructions that multiply and add in one, which the compiler uses in files that allow contraction.
#define LOCKSTEP_FUSED [[gnu::target_clones("avx512f", "fma", "default")]]
#else
#define LOCKSTEP_VECTORISED
#define LOCKSTEP_FUSED
#endif

// Into every one of those versions.
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline
