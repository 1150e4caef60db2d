// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "lockstep/base/observer.hpp"

namespace lockstep::observe {

/// The rank of a trace, and the origin of its times.
struct TraceOptions {
  Rank rank;
  std::string host;
  Clock::time_point origin;  ///< time 0 of the trace; the moment all ranks left a barrier aligns their clocks
};

/// Keeps the spans of one rank in memory until the run ends and they are written.
class TraceRecorder : public Observer {
 public:
  /// Records spans of the rank, and by the origin of times, that the options name.
  explicit TraceRecorder(TraceOptions options) : options_(std::move(options)) {}

  /// May be called from several threads.
  void span(const Span& span) override;

  /// The rank's events in Chrome's trace format, as JSON objects separated by commas, without the brackets of an array:
  /// names of the process and of its tracks, then one complete event ("ph":"X", times in µs) per span.
  [[nodiscard]] std::string events_json() const;

 private:
  struct RecordedSpan {
    int track = 0;
    int name = 0;
    Clock::time_point begin;
    Clock::time_point end;
    Bytes bytes;
    int algorithm = 0;
  };
  /// Names, numbered in the order of appearance, so that a span stores no string.
  using Names = std::map<std::string, int, std::less<>>;

  TraceOptions options_;
  mutable std::mutex mutex_;
  Names tracks_;
  Names names_;
  std::deque<RecordedSpan> spans_;
};

/// Writes a trace that chrome://tracing and ui.perfetto.dev can open.
class TraceFile {
 public:
  /// Creates the file and writes its beginning, so that an invalid path or a full disk is noticed before training.
  /// @throws Error{io} naming the path and the reason
  explicit TraceFile(const std::filesystem::path& path);
  ~TraceFile();
  TraceFile(TraceFile&&) noexcept;
  TraceFile& operator=(TraceFile&&) noexcept;

  /// Writes the trace to its end. Called once. @param events  events_json() of each rank
  /// @throws Error{io}
  void write(std::span<const std::string> events);

 private:
  std::unique_ptr<class OutputFile> file_;
};

}  // namespace lockstep::observe
