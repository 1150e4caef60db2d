// SPDX-License-Identifier: Apache-2.0
#include "platform/mpi/portable_error.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <sstream>
#include <utility>

namespace lockstep {
namespace {

// Fields are in a fixed order, each terminated by a byte that no message contains.
constexpr char end_of_field = '\0';

template <typename Number>
std::string number_or_nothing(const std::optional<Number>& value) {
  return value ? std::to_string(*value) : std::string();
}

std::optional<std::int64_t> read_number(const std::string& field) {
  if (field.empty()) return std::nullopt;
  return std::stoll(field);
}

}  // namespace

std::string to_text(const Error& error) {
  const ErrorContext& context = error.context();
  const std::array<std::string, 8> fields = {std::to_string(static_cast<int>(error.code())),
                                             error.message(),
                                             context.operation,
                                             context.label,
                                             number_or_nothing(context.step),
                                             number_or_nothing(context.rank),
                                             context.host,
                                             number_or_nothing(context.bytes)};
  std::string text;
  for (const std::string& field : fields) text += field + end_of_field;
  return text;
}

Error error_from_text(const std::string& text) {
  std::istringstream stream(text);
  std::array<std::string, 8> fields;
  for (std::string& field : fields) std::getline(stream, field, end_of_field);
  const auto& [code, message, operation, label, step, rank, host, bytes] = fields;
  ErrorContext context{.operation = operation,
                       .label = label,
                       .step = read_number(step),
                       .rank = std::nullopt,
                       .host = host,
                       .peers = {},
                       .bytes = read_number(bytes)};
  if (const auto number = read_number(rank)) context.rank = static_cast<int>(*number);
  return {static_cast<ErrorCode>(std::stoi(code)), message, std::move(context)};
}

}  // namespace lockstep
