// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/observe/events.hpp"

namespace lockstep::observe {

/// Appends events to a file, one JSON object per line:
/// {"event":"start"|"step"|"stragglers"|"balance"|"epoch"|"evaluation"|"classes"|"checkpoint"|"recovery"|"end", …},
/// with the names and values of the event's fields. A number that is not finite is written as null.
///
/// Each line is passed to the operating system at once, so it is kept if the process is killed.
class MetricsFile {
 public:
  /// Opens or creates the file. @throws Error{io} naming the path and the reason
  explicit MetricsFile(const std::filesystem::path& path);
  ~MetricsFile();
  MetricsFile(MetricsFile&&) noexcept;
  MetricsFile& operator=(MetricsFile&&) noexcept;

  /// @throws Error{io}
  void write(const StartEvent& event);
  /// @throws Error{io}
  void write(const StepEvent& event);
  /// @throws Error{io}
  void write(const StragglerEvent& event);
  /// @throws Error{io}
  void write(const BalanceEvent& event);
  /// @throws Error{io}
  void write(const EpochEvent& event);
  /// @throws Error{io}
  void write(const CheckpointEvent& event);
  /// @throws Error{io}
  void write(const ResultEvent& event);
  /// @throws Error{io}
  void write(const ClassesEvent& event);
  /// @throws Error{io}
  void write(const RecoveryEvent& event);
  /// @throws Error{io}
  void write(const EndEvent& event);

 private:
  std::unique_ptr<class OutputFile> file_;
};

/// Returns whether a file of events has this one of the run that was started last. @param kind  "step", "epoch"
/// or "recovery"
/// @param number  of the step in the run, of the epoch, or of the recovery in this start
bool has_event(const std::filesystem::path& path, const std::string& kind, std::int64_t number);

}  // namespace lockstep::observe
