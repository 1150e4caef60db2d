// SPDX-License-Identifier: Apache-2.0
// ops_list_rows prints as JSON what mpi-scripts/parity/operators-pytorch.py needs to know about the rows.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "ops/rows.hpp"

namespace {

using namespace lockstep;

nlohmann::json described(const std::vector<ops::OwnedTensor>& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const ops::OwnedTensor& tensor : tensors) list.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  return list;
}

std::string name_of(ops::test::Domain domain) {
  switch (domain) {
    case ops::test::Domain::unit: return "unit";
    case ops::test::Domain::boxes: return "boxes";
    case ops::test::Domain::targets: return "targets";
    default: return "any";
  }
}

}  // namespace

int main() {
  nlohmann::json list = nlohmann::json::array();
  for (const ops::test::Row& row : ops::test::rows()) {
    if (!row.in_pytorch) continue;
    const ops::Signature signature = ops::signature_of(row.op, row.inputs);
    nlohmann::json inputs = nlohmann::json::array();
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      const ops::Shape& s = row.inputs[i];
      const bool integer = i < signature.inputs.size() && signature.inputs[i] == Content::integer;
      const ops::test::Domain domain = i < row.domains.size() ? row.domains[i] : ops::test::Domain::any;
      const ops::test::Range range = row.range(i);
      inputs.push_back({{"shape", {s.batch, s.channels, s.height, s.width}},
                        {"domain", integer ? "integer" : name_of(domain)},
                        {"low", range.low},
                        {"high", range.high}});
    }
    list.push_back({{"name", row.name},
                    {"inputs", inputs},
                    {"parameters", described(signature.parameters)},
                    {"state", described(signature.state)},
                    {"loss", signature.is_loss},
                    {"backward", signature.has_backward}});
  }
  std::cout << list.dump() << '\n';
}
