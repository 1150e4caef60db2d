// SPDX-License-Identifier: Apache-2.0
#include "ddp/checkpoint_numbers.hpp"

#include <charconv>
#include <cmath>
#include <concepts>
#include <system_error>
#include <type_traits>

#include "base/nearest.hpp"

namespace lockstep::ddp {
namespace {

using Value = state::StateFile::Value;

/// Returns a value of state.json as the given type; nothing if it is of another kind, or does not fit.
template <typename T>
std::optional<T> value_as(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if constexpr (std::same_as<T, std::string>) {
    return text == nullptr ? std::nullopt : std::optional(*text);
  } else if constexpr (std::same_as<T, bool>) {
    const auto flag = value_as<std::int64_t>(value);
    return flag && (*flag == 0 || *flag == 1) ? std::optional(*flag == 1) : std::nullopt;
  } else if constexpr (std::floating_point<T>) {
    const std::optional<double> real = state::StateFile::real_of(value);
    const bool fits = real && (static_cast<double>(static_cast<T>(*real)) == *real || std::isnan(*real));
    return fits ? std::optional(static_cast<T>(*real)) : std::nullopt;
  } else {
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (whole != nullptr) return std::in_range<T>(*whole) ? std::optional(static_cast<T>(*whole)) : std::nullopt;
    T number{};
    if (text == nullptr) return std::nullopt;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    return error == std::errc() && end == text->data() + text->size() ? std::optional(number) : std::nullopt;
  }
}

}  // namespace

std::string kind_of(const ProgramNumber& number) {
  return std::visit(
      []<typename T>(T* /*number*/) -> std::string {
        if constexpr (std::same_as<T, std::string>) return "text";
        if constexpr (std::same_as<T, bool>) return "bool";
        return (std::floating_point<T> ? "float"
                : std::is_signed_v<T>  ? "int"
                                       : "uint") +
               std::to_string(8 * sizeof(T));
      },
      number);
}

Value stored_value(const ProgramNumber& number) {
  return std::visit(
      []<typename T>(const T* of_program) -> Value {
        if constexpr (std::same_as<T, bool>) {
          return std::int64_t{*of_program ? 1 : 0};
        } else if constexpr (std::integral<T>) {
          if (!std::in_range<std::int64_t>(*of_program)) return std::to_string(*of_program);
          return static_cast<std::int64_t>(*of_program);
        } else if constexpr (std::floating_point<T>) {
          return double{*of_program};
        } else {
          return *of_program;
        }
      },
      number);
}

bool restore(const ProgramNumber& number, const Value& value, bool changes) {
  return std::visit(
      [&]<typename T>(T* of_program) {
        const std::optional<T> saved = value_as<T>(value);
        if (changes && saved) *of_program = *saved;
        return saved.has_value();
      },
      number);
}

std::string description(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return "the real number " + std::to_string(*number);
  return "the text '" + echo(std::get<std::string>(value)) + "'";
}

bool is_utf8(const std::string& text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  const auto replacements = [&](std::string_view in) {
    std::size_t count = 0;
    for (auto at = in.find(replacement); at != std::string_view::npos; at = in.find(replacement, at + 1)) ++count;
    return count;
  };
  state::StateFile alone;
  alone.sections["texts"]["text"] = text;
  return replacements(alone.text()) == replacements(text);
}

}  // namespace lockstep::ddp
