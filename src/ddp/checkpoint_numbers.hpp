// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "state/state_file.hpp"

/// The numbers and texts of a program, as `state.json` has them.
namespace lockstep::ddp {

using ProgramNumber = std::variant<bool*, std::int8_t*, std::int16_t*, std::int32_t*, std::int64_t*, std::uint8_t*,
                                   std::uint16_t*, std::uint32_t*, std::uint64_t*, float*, double*, std::string*>;

/// Names the kind and width of a number, as in messages: "int32".
std::string kind_of(const ProgramNumber& number);
/// Returns the form in which `state.json` has the number or text, in which it is restored exactly. A whole number
/// beyond 2⁶³ − 1 is a text.
state::StateFile::Value stored_value(const ProgramNumber& number);
/// Overwrites the number or text with a value if `changes` and the value fits it. @return whether it does
bool restore(const ProgramNumber& number, const state::StateFile::Value& value, bool changes);
/// Describes a number or text for a message.
std::string description(const state::StateFile::Value& value);
/// Returns whether state.json has the text unchanged: it replaces bytes that are not UTF-8.
bool is_utf8(const std::string& text);

}  // namespace lockstep::ddp
