// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "platform/mpi/cluster_view.hpp"

namespace lockstep {

/// Convert a host with its machine to JSON and back, without processes.
nlohmann::json host_to_json(const HostView& host);
HostView host_from_json(const nlohmann::json& json);

/// Convert a process to JSON and back.
nlohmann::json process_to_json(const ProcessView& process);
ProcessView process_from_json(const nlohmann::json& json);

}  // namespace lockstep
