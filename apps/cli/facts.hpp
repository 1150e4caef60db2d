// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "platform/machine/launch.hpp"
#include "platform/ranks/agreement.hpp"

namespace lockstep::cli {

/// What a run promises, and uses, decides whether a difference between ranks does harm.
struct RunNature {
  bool same_bits = false;  ///< whether the bits must not depend on where a part of the batch is computed (--shards)
  bool on_gpus = false;    ///< whether it may use GPUs
};

/// Returns the variables of the environment by which ranks could come to act differently: those of OpenMP's threads, of
/// oneDNN, of NCCL and of lockstep. Left out are those that hosts may well need different values of, such as network
/// interfaces, and those of logs.
std::vector<Term> variables_to_compare(const Environment& environment, const RunNature& nature);

/// Returns what ranks compare of their processes when they start, beside options and data: the build, the protocol,
/// the versions of MPI and hwloc, the processor's model, how it treats subnormal numbers, and the variables of the
/// environment.
std::vector<Term> facts_of_process(const RunNature& nature = {});

/// Returns the description of the GNU build ID among the notes of a program, as hexadecimal digits; empty if there is
/// none.
/// @param notes  a segment of notes (PT_NOTE)
std::string build_id_of_notes(std::span<const std::byte> notes);

/// Returns a text that differs between two builds: the commit, and the GNU build IDs of this program and of lockstep's
/// shared libraries, if there are any. A program that was linked without a build ID is read and hashed instead.
std::string build_id();

}  // namespace lockstep::cli
