// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/wrapped.hpp"
#include "collectives/choice/selection.hpp"

namespace lockstep::collectives {
namespace {

constexpr std::size_t reason_column = 14;  // indent of lines that continue a row

std::string reason(const Decision& decision, const Selection& selection, std::string_view table) {
  switch (decision.reason) {
    case Reason::forced: return "forced";
    case Reason::table: {
      const TableEntry& entry = *decision.entry;
      const std::string end = entry.below == TableEntry::no_end ? "" : " to below " + std::to_string(entry.below.value);
      return "table " + std::string(table) + ", entry from " + std::to_string(entry.from.value) + end;
    }
    case Reason::cost_model: break;
  }
  return selection.table.entries().empty() ? "cost model" : "cost model: no entry of " + std::string(table);
}

template <typename... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  return text.data();
}

}  // namespace

std::string explain(const Selection& selection, CollectiveKind kind, std::span<const Bytes> sizes,
                    std::string_view table, std::size_t columns) {
  std::vector<Decision> decisions;
  std::size_t longest = std::string_view("algorithm").size();
  for (const Bytes size : sizes) {
    decisions.push_back(choose(selection, kind, size));
    longest = std::max(longest, algorithm_name(kind, decisions.back().choice.algorithm).size());
  }
  std::string text = wrapped("# " + std::string(name(kind)) + " on " + describe(selection.shape), columns);
  if (!selection.shared_memory) text += "# the ranks of a node cannot share memory: by messages only\n";
  text += format("# %10s  ", "size (B)") + padded("algorithm", longest) +
          format("%6s %11s %6s %10s  %s\n", "radix", "segment (B)", "blocks", "model (us)", "why");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Decision& decision = decisions[i];
    text += wrapped(format("%12lld  ", static_cast<long long>(sizes[i].value)) +
                        padded(algorithm_name(kind, decision.choice.algorithm), longest) +
                        format("%6s %11lld %6d %10.2f  ", radix_text(kind, decision.choice).c_str(),
                               static_cast<long long>(decision.choice.segment.value), decision.choice.blocks_in_flight,
                               decision.predicted_seconds * 1e6) +
                        reason(decision, selection, table),
                    columns, reason_column);
  }
  return text;
}

}  // namespace lockstep::collectives
