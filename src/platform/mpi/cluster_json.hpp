// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "platform/mpi/cluster_view.hpp"

namespace lockstep {

/// A host with its machine, and back; processes are not part of it.
nlohmann::json host_to_json(const HostView& host);
HostView host_from_json(const nlohmann::json& json);

/// One process, and back.
nlohmann::json process_to_json(const ProcessView& process);
ProcessView process_from_json(const nlohmann::json& json);

}  // namespace lockstep
