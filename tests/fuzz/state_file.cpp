// SPDX-License-Identifier: Apache-2.0
#include "state/state_file.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_state_file(const std::string& input) {
  state::StateFile state;
  try {
    // Nothing that is made up has the right checksum.
    state = state::StateFile::parse(state::StateFile::sealed(input), "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported, "another code");
    return;
  }
  require(state::StateFile::parse(state.text(), "again") == state, "the state changes");
}

const Registration state_file("state_file", parse_state_file);

}  // namespace
}  // namespace lockstep::fuzz
