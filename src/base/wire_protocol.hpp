// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// The number of the protocol by which ranks talk to each other: messages and their tags, signatures of calls, and the
/// layout of the memory that the ranks of a node share. Whoever changes one of them raises it. Ranks compare it before
/// they rely on it.
inline constexpr int wire_protocol = 3;

}  // namespace lockstep
