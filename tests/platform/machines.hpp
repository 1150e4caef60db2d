// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "platform/machine/topology.hpp"

namespace lockstep::testing_machines {

/// Returns the text of a file in tests/platform/data.
inline std::string read_data(const std::string& name) {
  const std::ifstream file(std::string(LOCKSTEP_TEST_DATA) + '/' + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns two packages of four cores with two PUs each (p and p + 8), and two GPUs at each package.
inline Topology two_packages_four_gpus() { return topology_from_xml(read_data("two_packages_four_gpus_cuda.xml")); }

}  // namespace lockstep::testing_machines
