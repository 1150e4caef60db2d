// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emulated_gpu/lockstep/ranks.hpp"

namespace lockstep::on_emulated_gpus {

/// Draws a program from the seed and runs this rank's part in it. The program copies in and out on several streams and
/// runs collectives of all kinds on up to three communicators. Operations are plain, prepared or in groups, queued on
/// the host or on streams, and waited for in any order or only by streams. Each buffer is reused as soon as the program
/// has ordered that. Every byte that is copied out is compared with a computation on the host. Collective. An error
/// fails the test, with the seed.
///
/// On each GPU, the operations of different communicators are ordered one after the other, by events or on the host,
/// because NCCL's kernels may fill the GPU, and a different order on every GPU would then deadlock.
void run_succession(Ranks& ranks, std::uint64_t seed, backends::NcclAlgorithm algorithm);

}  // namespace lockstep::on_emulated_gpus
