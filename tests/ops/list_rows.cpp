// SPDX-License-Identifier: Apache-2.0
// ops_list_rows: what mpi-scripts/operators-pytorch.py has to know of the rows, as JSON.
#include <iostream>
#include <nlohmann/json.hpp>

#include "ops/rows.hpp"

namespace {

using namespace lockstep;

nlohmann::json described(const std::vector<ops::OwnedTensor>& tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const ops::OwnedTensor& tensor : tensors) list.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  return list;
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
      const bool unit = i < row.domains.size() && row.domains[i] == ops::test::Domain::unit;
      inputs.push_back({{"shape", {s.batch, s.channels, s.height, s.width}},
                        {"domain", integer ? "integer"
                                   : unit  ? "unit"
                                           : "any"}});
    }
    list.push_back({{"name", row.name},
                    {"inputs", inputs},
                    {"integers", row.integers},
                    {"parameters", described(signature.parameters)},
                    {"state", described(signature.state)},
                    {"loss", signature.is_loss}});
  }
  std::cout << list.dump() << '\n';
}
