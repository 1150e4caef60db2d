// SPDX-License-Identifier: Apache-2.0
#include "backends/selection_file.hpp"
#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_selection_table(const std::string& input) {
  collectives::SelectionTable table;
  try {
    table = backends::parse_selection_table(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  const std::string text = backends::format_selection_table(table);
  require(backends::parse_selection_table(text, "again") == table, "the table changes");
}

const Registration selection_table("selection_table", parse_selection_table);

}  // namespace
}  // namespace lockstep::fuzz
