// SPDX-License-Identifier: Apache-2.0
#include "vision/source/bad_samples.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::vision {
namespace {

constexpr std::size_t most_of_line = 4096;

/// Part and number of a line of the list.
std::pair<std::string, std::int64_t> key_of(std::string_view line) {
  const std::size_t tab = std::min(line.find('\t'), line.size());
  std::int64_t number = 0;
  if (tab < line.size()) (void)std::from_chars(line.data() + tab + 1, line.data() + line.size(), number);
  return {std::string(line.substr(0, tab)), number};
}

}  // namespace

void BadSamples::add(std::int64_t sample, std::string place, std::string reason) {
  if (reason.starts_with(place + ": ")) reason.erase(0, place.size() + 2);
  const std::lock_guard lock(mutex_);
  if (entries_.try_emplace(sample, Entry{std::move(place), std::move(reason)}).second) ++count_;
}

bool BadSamples::contains(std::int64_t sample) const {
  if (count() == 0) return false;
  const std::lock_guard lock(mutex_);
  return entries_.contains(sample);
}

std::string BadSamples::text() const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (const auto& [sample, entry] : entries_)
    lines += part_ + '\t' + std::to_string(sample) + '\t' + echo(entry.place, most_of_line) + '\t' +
             echo(entry.reason, most_of_line) + '\n';
  return lines;
}

std::string united(std::span<const std::string> texts) {
  std::map<std::pair<std::string, std::int64_t>, std::string_view> lines;
  for (const std::string& text : texts) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (!line.empty()) lines.try_emplace(key_of(line), line);
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
  }
  std::string result;
  for (const auto& [key, line] : lines) result.append(line) += '\n';
  return result;
}

std::int64_t load_next_good(const Source& source, std::int64_t sample, BadSamples& bad,
                            const std::function<void(std::int64_t)>& load) {
  const std::int64_t size = source.size();
  std::string last_reason;
  for (std::int64_t tried = 0; tried < size; ++tried) {
    const std::int64_t candidate = (sample + tried) % size;
    if (bad.contains(candidate)) continue;
    try {
      load(candidate);
      return candidate;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt) throw;
      last_reason = error.message();
      bad.add(candidate, source.place(candidate), error.message());
    }
  }
  throw Error(ErrorCode::corrupt, "none of the " + std::to_string(size) + " samples is good" +
                                      (last_reason.empty() ? "" : "; of the last one: " + last_reason));
}

}  // namespace lockstep::vision
