// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks a function that is compiled for several instruction sets; the loader takes the best that the processor has.
// -ffp-contract=off makes all of them round alike. It is empty under sanitizers, because their runtime is not
// initialized yet when the loader chooses. If LOCKSTEP_HAS_TARGETS is defined, functions may be compiled for several
// instruction sets.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && \
    defined(__GNUC__) && !defined(__clang__)
#define LOCKSTEP_HAS_TARGETS
#define LOCKSTEP_VECTORISED [[gnu::target_clones("avx512f", "avx2", "default")]]
// Like LOCKSTEP_VECTORISED, but with fused multiply-add, which the compiler uses in files that allow contraction.
#define LOCKSTEP_FUSED [[gnu::target_clones("avx512f", "fma", "default")]]
#else
#define LOCKSTEP_VECTORISED
#define LOCKSTEP_FUSED
#endif

// Inlines a function into every one of those versions.
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline
