// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.hpp"

#include <algorithm>
#include <utility>

#include "base/nearest.hpp"

namespace lockstep {
namespace {

/// Makes a message fit to print, whatever it quotes. Its own part is far shorter than the limit.
std::string printable(std::string message) {
  constexpr std::size_t longest = 10'000;
  if (message.size() > longest) message.replace(longest, std::string::npos, "…");
  return echo_lines(message);
}

}  // namespace

Error::Error(ErrorCode code, std::string message, ErrorContext context, SourceLocation location)
    : code_(code), message_(printable(std::move(message))), context_(std::move(context)), location_(location) {
  compose();
}

Error Error::reported_by(int rank, std::string_view host) const {
  Error copy = *this;
  if (!copy.context_.rank) copy.context_.rank = rank;
  if (copy.context_.host.empty()) copy.context_.host = host;
  copy.compose();
  return copy;
}

Error Error::in_step(std::int64_t step) const {
  Error copy = *this;
  if (!copy.context_.step) copy.context_.step = step;
  copy.compose();
  return copy;
}

Error Error::in_action(std::int64_t action) const {
  Error copy = *this;
  if (!copy.context_.action) copy.context_.action = action;
  copy.compose();
  return copy;
}

Error Error::of_operation(const ErrorContext& operation) const {
  Error copy = *this;
  if (copy.context_.operation.empty()) copy.context_.operation = operation.operation;
  if (copy.context_.label.empty()) copy.context_.label = operation.label;
  if (!copy.context_.bytes) copy.context_.bytes = operation.bytes;
  copy.compose();
  return copy;
}

Error Error::naming_also(const std::vector<int>& peers) const {
  Error copy = *this;
  std::vector<int>& all = copy.context_.peers;
  for (const int peer : peers)
    if (std::find(all.begin(), all.end(), peer) == all.end()) all.push_back(peer);
  copy.compose();
  return copy;
}

Error Error::on_every_rank() const {
  Error copy = *this;
  copy.on_every_rank_ = true;
  copy.compose();
  return copy;
}

Error Error::as_consequence() const {
  Error copy = *this;
  copy.is_consequence_ = true;
  return copy;
}

void Error::compose() {
  text_.clear();
  if (context_.rank) text_ += "rank " + std::to_string(*context_.rank);
  if (!context_.host.empty()) text_ += (text_.empty() ? "host " : " on ") + echo(context_.host);
  if (!text_.empty()) text_ += ": ";
  text_ += std::string(name(code_)) + ": " + message_;

  std::string details;
  const auto detail = [&details](std::string_view key, const std::string& value) {
    details += (details.empty() ? " (" : ", ") + std::string(key) + " " + value;
  };
  if (!context_.operation.empty()) detail("operation", echo(context_.operation));
  if (!context_.label.empty()) detail("label", "'" + echo(context_.label) + "'");
  if (context_.step) detail("step", std::to_string(*context_.step));
  if (context_.action) detail("algorithm step", std::to_string(*context_.action));
  std::string ranks;  // an error of all ranks has no peers: these are the ranks that it concerns
  bool names_others = false;
  for (const int peer : context_.peers) {
    names_others = names_others || peer != context_.rank;
    if (on_every_rank_ || peer != context_.rank) ranks += ' ' + std::to_string(peer);
  }
  const std::string_view kind = on_every_rank_ ? "on rank" : "peer rank";
  if (names_others) detail(std::string(kind) + (ranks.find(' ', 1) == std::string::npos ? "" : "s"), ranks.substr(1));
  if (context_.bytes) detail("bytes", std::to_string(*context_.bytes));
  if (!details.empty()) text_ += details + ")";
}

std::exception_ptr current_exception_of(int rank, std::string_view host) {
  try {
    throw;
  } catch (const Error& error) {
    return std::make_exception_ptr(error.reported_by(rank, host));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace lockstep
