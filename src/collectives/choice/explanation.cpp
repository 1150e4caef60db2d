// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>

#include "lockstep/collectives/choice/selection.hpp"

namespace lockstep::collectives {
namespace {

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
                    std::string_view table) {
  std::string text = "# " + std::string(name(kind)) + " on " + describe(selection.shape) + '\n';
  if (!selection.shared_memory) text += "# the ranks of a node cannot share memory: by messages only\n";
  text += format("# %12s  %-18s %5s %12s %9s %14s  %s\n", "size (B)", "algorithm", "radix", "segment (B)", "in flight",
                 "predicted (us)", "why");
  for (const Bytes size : sizes) {
    const Decision decision = choose(selection, kind, size);
    const std::string algorithm(algorithm_name(kind, decision.choice.algorithm));
    text += format("  %12lld  %-18s %5s %12lld %9d %14.2f  ", static_cast<long long>(size.value), algorithm.c_str(),
                   radix_text(kind, decision.choice).c_str(), static_cast<long long>(decision.choice.segment.value),
                   decision.choice.blocks_in_flight, decision.predicted_seconds * 1e6);
    text += reason(decision, selection, table) + '\n';
  }
  return text;
}

}  // namespace lockstep::collectives
