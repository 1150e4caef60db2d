// SPDX-License-Identifier: Apache-2.0
#include "platform/watchdog/rank_report.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ThreadStack, thread, name, frames)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, rank, host, process, state, step, task, operation, is_waiting, seconds,
                                   history, stacks, source)

namespace {

// What a report may have that another process has sent.
constexpr std::size_t longest_text = 1000;  // names of functions are long
constexpr std::size_t most_threads = 1000;
constexpr std::size_t most_frames = 100;

std::string text_of(const FlightRecorder::Operation& operation) {
  std::string text(name(operation.kind));
  if (!operation.label.empty()) text += " '" + operation.label + "'";
  text += " (" + std::to_string(operation.bytes.value) + " bytes)";
  return operation.step > 0 ? text + " of step " + std::to_string(operation.step) : text;
}

std::string tenths_of_seconds(double seconds) { return format_text("%.1f s", seconds); }

/// Ranks that are described by the same text.
struct AlikeRanks {
  std::string text;
  std::vector<const RankReport*> reports;
};

template <typename TextOf>
std::vector<AlikeRanks> alike_ranks(const std::vector<RankReport>& reports, const TextOf& text_of_report) {
  std::map<std::string, AlikeRanks> found;
  for (const RankReport& report : reports) {
    const std::string text = text_of_report(report);
    if (text.empty()) continue;
    found[text].text = text;
    found[text].reports.push_back(&report);
  }
  std::vector<AlikeRanks> all;
  for (auto& [text, alike] : found) all.push_back(std::move(alike));
  std::stable_sort(all.begin(), all.end(),
                   [](const AlikeRanks& a, const AlikeRanks& b) { return a.reports.size() < b.reports.size(); });
  return all;
}

std::vector<int> ranks_of(const AlikeRanks& alike) {
  std::vector<int> ranks;
  for (const RankReport* const report : alike.reports) ranks.push_back(report->rank);
  return ranks;
}

/// Says what a rank does, without what differs between ranks that do the same.
std::string activity(const RankReport& report) {
  std::string text;
  if (report.state != "running" && report.state != "sleeping") text = "its process is " + report.state + "; ";
  if (report.is_waiting) {
    text += "waiting in " + report.operation;
  } else {
    if (!report.task.empty()) text += report.task + (report.step > 0 ? ", step " + std::to_string(report.step) : "");
    if (report.task.empty()) text += "outside of lockstep";
    if (!report.operation.empty()) text += "; its last operation, " + report.operation + ", has ended";
  }
  return report.source.empty() ? text : text + " (says " + report.source + ")";
}

bool is_wait(const std::string& function) {
  return function.find("lockstep::") != std::string::npos &&
         (function.find("wait") != std::string::npos || function.find("Wait") != std::string::npos);
}

/// Returns the first thread's stack down to where it begins to wait: what it does there changes from moment to moment.
std::vector<std::string> place_of(const RankReport& report) {
  if (report.stacks.empty()) return {};
  std::vector<std::string> frames = report.stacks.front().frames;
  const auto outermost_wait = std::find_if(frames.rbegin(), frames.rend(), is_wait);
  if (outermost_wait != frames.rend()) frames.erase(frames.begin(), outermost_wait.base() - 1);
  return frames;
}

std::string lines_of(const std::vector<std::string>& frames) {
  std::string text;
  for (const std::string& frame : frames) text += "    " + frame + '\n';
  return text;
}

std::string other_threads(const RankReport& report) {
  std::string text;
  for (std::size_t i = 1; i < report.stacks.size(); ++i) {
    const ThreadStack& stack = report.stacks[i];
    text += "  thread " + std::to_string(stack.thread) + " (" + stack.name + ") of rank " + std::to_string(report.rank);
    text += stack.frames.empty() ? " does not answer signals\n" : ":\n" + lines_of(stack.frames);
  }
  return text;
}

/// Explains what all ranks of a job do, for `explain_ranks`.
class Explanation {
 public:
  Explanation(const std::vector<std::string>& hosts, const std::vector<RankReport>& reports)
      : hosts_(hosts), reports_(reports) {}

  /// Names the ranks of which nothing is known.
  [[nodiscard]] std::string silence() const {
    std::vector<int> silent;
    for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank) {
      const bool is_known =
          std::any_of(reports_.begin(), reports_.end(), [&](const auto& r) { return r.rank == rank; });
      if (!is_known) silent.push_back(rank);
    }
    if (silent.empty()) return {};
    return names(silent) + ": no answer, neither from the process nor from another one of its node\n";
  }

  /// A line for the ranks that do the same, and their operations before if these are not the majority.
  [[nodiscard]] std::string activity_of(const AlikeRanks& alike, std::size_t history) const {
    const RankReport& one = *alike.reports.front();
    std::string text = names(ranks_of(alike)) + ": " + alike.text;
    if (!one.operation.empty())
      text += one.is_waiting ? ", for " + times_of(alike) : ", submitted " + times_of(alike) + " ago";
    text += '\n';
    const bool is_odd = 2 * alike.reports.size() <= hosts_.size();
    if (!is_odd || history == 0 || one.history.empty()) return text;
    text += "  before that, on rank " + std::to_string(one.rank) + ":";
    for (std::size_t i = one.history.size() - std::min(one.history.size(), history); i < one.history.size(); ++i)
      text += (text.back() == ':' ? " " : ", ") + one.history[i];
    return text + '\n';
  }

  /// The stack of the ranks whose first threads are at the same place.
  [[nodiscard]] std::string place_of_all(const AlikeRanks& alike) const {
    const bool all_wait =
        std::all_of(alike.reports.begin(), alike.reports.end(), [](const auto* r) { return r->is_waiting; });
    const std::vector<int> ranks = ranks_of(alike);
    std::string text = ranks.size() == 1 ? names(ranks) + (all_wait ? " waits" : " is")
                                         : std::to_string(ranks.size()) + " of " + std::to_string(hosts_.size()) +
                                               " ranks (" + names(ranks) + ")" + (all_wait ? " wait" : " are");
    text += " here:\n" + alike.text;
    return ranks.size() == 1 && !all_wait ? text + other_threads(*alike.reports.front()) : text;
  }

 private:
  [[nodiscard]] std::string names(const std::vector<int>& ranks) const {
    return rank_names(ranks, [this](int rank) { return hosts_[static_cast<std::size_t>(rank)]; });
  }
  [[nodiscard]] static std::string times_of(const AlikeRanks& alike) {
    const auto [first, last] =
        std::minmax_element(alike.reports.begin(), alike.reports.end(),
                            [](const auto* a, const auto* b) { return a->seconds < b->seconds; });
    const std::string shortest = tenths_of_seconds((*first)->seconds);
    const std::string longest = tenths_of_seconds((*last)->seconds);
    return shortest == longest ? longest : shortest + " to " + longest;
  }

  const std::vector<std::string>& hosts_;
  const std::vector<RankReport>& reports_;
};

/// Cuts a list of texts, and makes them fit to print.
void make_printable(std::vector<std::string>& texts, std::size_t most) {
  if (texts.size() > most) texts.resize(most);
  for (std::string& text : texts) text = echo(text, longest_text);
}

void make_printable(RankReport& report) {
  for (std::string* const text : {&report.host, &report.state, &report.task, &report.operation, &report.source})
    *text = echo(*text, longest_text);
  make_printable(report.history, FlightRecorder::remembered);
  if (report.stacks.size() > most_threads) report.stacks.resize(most_threads);
  for (ThreadStack& stack : report.stacks) {
    stack.name = echo(stack.name);
    make_printable(stack.frames, most_frames);
  }
}

}  // namespace

RankReport report_from(const FlightRecorder& record, int rank, const std::string& host) {
  RankReport report{.rank = rank,
                    .host = host,
                    .process = record.process(),
                    .state = process_state(record.process()),
                    .step = record.step(),
                    .task = record.task()};
  const std::vector<FlightRecorder::Operation> operations = record.operations();
  // Operations overlap, and the oldest one that is pending is what the others wait behind.
  auto last = std::find_if(operations.begin(), operations.end(), [](const auto& o) { return o.is_pending; });
  report.is_waiting = last != operations.end();
  if (!report.is_waiting && !operations.empty()) last = operations.end() - 1;
  for (auto operation = operations.begin(); operation != last; ++operation)
    report.history.push_back(text_of(*operation));
  if (last == operations.end()) return report;
  report.operation = text_of(*last);
  report.seconds = std::chrono::duration<double>(Clock::now() - last->submitted).count();
  return report;
}

std::string to_json(const std::vector<RankReport>& reports) {
  return nlohmann::json(reports).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<std::vector<RankReport>> reports_from_json(const std::string& text, std::size_t ranks) {
  try {
    auto reports = nlohmann::json::parse(text).get<std::vector<RankReport>>();
    std::erase_if(reports, [&](const RankReport& r) { return r.rank < 0 || std::cmp_greater_equal(r.rank, ranks); });
    for (RankReport& report : reports) make_printable(report);
    return reports;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string explain_ranks(const std::vector<std::string>& hosts, const std::vector<RankReport>& reports,
                          std::size_t history) {
  const Explanation explanation(hosts, reports);
  std::string text = explanation.silence();
  for (const AlikeRanks& alike : alike_ranks(reports, activity)) text += explanation.activity_of(alike, history);
  for (const AlikeRanks& alike : alike_ranks(reports, [](const RankReport& r) { return lines_of(place_of(r)); }))
    text += explanation.place_of_all(alike);
  return text;
}

}  // namespace lockstep
