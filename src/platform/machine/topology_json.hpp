// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "platform/machine/topology.hpp"

/// Topologies as JSON, in which ranks tell each other about their machines.
namespace lockstep {

// A set of processors is its text.
inline void to_json(nlohmann::json& to, const CpuSet& set) { to = set.text(); }
inline void from_json(const nlohmann::json& from, CpuSet& set) { set = CpuSet::parse(from.get<std::string>()); }
inline void to_json(nlohmann::json& to, const Bytes& bytes) { to = bytes.value; }
inline void from_json(const nlohmann::json& from, Bytes& bytes) { bytes.value = from; }

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gpu, name, vendor, model, uuid, pci_bus_id, near_pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Package, model, pus)

// These have units in their keys.
inline void to_json(nlohmann::json& to, const NumaNode& node) {
  to = {{"number", node.number}, {"memory_bytes", node.memory}, {"pus", node.pus}};
}
inline void from_json(const nlohmann::json& from, NumaNode& node) {
  node = {from.at("number"), from.at("memory_bytes").get<Bytes>(), from.at("pus")};
}
inline void to_json(nlohmann::json& to, const Cache& cache) {
  to = {{"level", cache.level}, {"size_bytes", cache.size}, {"pus", cache.pus}};
}
inline void from_json(const nlohmann::json& from, Cache& cache) {
  cache = {from.at("level"), from.at("size_bytes").get<Bytes>(), from.at("pus")};
}

}  // namespace lockstep
