// SPDX-License-Identifier: Apache-2.0
#include "observe/trace.hpp"

#include "observe/output_file.hpp"

namespace lockstep::observe {

namespace {

int number_of(std::map<std::string, int, std::less<>>& numbers, std::string_view name) {
  const auto known = numbers.find(name);
  if (known != numbers.end()) return known->second;
  return numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
}

std::vector<std::string_view> by_number(const std::map<std::string, int, std::less<>>& numbers) {
  std::vector<std::string_view> names(numbers.size());
  for (const auto& [name, number] : numbers) names[static_cast<std::size_t>(number)] = name;
  return names;
}

double microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

Json name_event(std::string_view what, int rank, int track, std::string_view name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

void TraceRecorder::span(const Span& span) {
  const std::lock_guard lock(mutex_);
  spans_.push_back({number_of(tracks_, span.track), number_of(names_, span.name), span.begin, span.end, span.bytes,
                    number_of(names_, span.algorithm)});
}

std::string TraceRecorder::events_json() const {
  const std::lock_guard lock(mutex_);
  const int rank = options_.rank.value;
  const auto tracks = by_number(tracks_);
  const auto names = by_number(names_);
  std::string text =
      one_line(name_event("process_name", rank, 0, "rank " + std::to_string(rank) + " on " + options_.host));
  for (std::size_t track = 0; track < tracks.size(); ++track)
    text += ",\n" + one_line(name_event("thread_name", rank, static_cast<int>(track), tracks[track]));
  for (const RecordedSpan& span : spans_) {
    Json json = {{"ph", "X"},
                 {"name", names[static_cast<std::size_t>(span.name)]},
                 {"pid", rank},
                 {"tid", span.track},
                 {"ts", microseconds(span.begin - options_.origin)},
                 {"dur", microseconds(span.end - span.begin)}};
    if (span.bytes.value != 0) json["args"]["bytes"] = span.bytes.value;
    const std::string_view algorithm = names[static_cast<std::size_t>(span.algorithm)];
    if (!algorithm.empty()) json["args"]["algorithm"] = algorithm;
    text += ",\n" + one_line(json);
  }
  return text;
}

TraceFile::TraceFile(const std::filesystem::path& path)
    : file_(std::make_unique<OutputFile>(path, OutputFile::Mode::truncate)) {
  file_->write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
}
TraceFile::~TraceFile() = default;
TraceFile::TraceFile(TraceFile&&) noexcept = default;
TraceFile& TraceFile::operator=(TraceFile&&) noexcept = default;

void TraceFile::write(std::span<const std::string> events) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i > 0) file_->write(",\n");
    file_->write(events[i]);
  }
  file_->write("\n]}\n");
}

}  // namespace lockstep::observe
