// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/kernel_choices.hpp"

#include "fuzz/targets.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::fuzz {
namespace {

void parse_kernel_choices(const std::string& input) {
  ops::KernelChoicesByConditions choices;
  try {
    choices = ops::parse_choices_file(input, "input");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt, "another code");
    return;
  }
  require(ops::parse_choices_file(ops::format_choices_file(choices), "again") == choices, "the choices change");
}

const Registration kernel_choices("kernel_choices", parse_kernel_choices);

}  // namespace
}  // namespace lockstep::fuzz
