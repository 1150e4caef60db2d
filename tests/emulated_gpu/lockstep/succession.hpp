// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emulated_gpu/lockstep/ranks.hpp"

namespace lockstep::on_emulated_gpus {

/// Draws a program from the seed and runs this rank's part in it: copies in and out on several streams, collectives of
/// all kinds on up to three communicators, plain, prepared or as groups, queued on the host or on streams, waited for
/// in any order or only by streams; each buffer is used again as soon as the program has ordered that. Every byte that
/// is copied out is compared with a computation on the host. Collective. What goes wrong fails the test, with the seed.
///
/// The operations of different communicators come one after the other on each GPU, by events or on the host: NCCL's
/// kernels may fill it, and then another order on every GPU would be a deadlock.
void run_succession(Ranks& ranks, std::uint64_t seed, backends::NcclAlgorithm algorithm);

}  // namespace lockstep::on_emulated_gpus
