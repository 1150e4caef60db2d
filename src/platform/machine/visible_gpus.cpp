// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <string_view>

#include "platform/machine/topology.hpp"

namespace lockstep {
namespace {

std::vector<Gpu>::const_iterator find_gpu(const std::vector<Gpu>& all, std::string_view entry) {
  if (entry.starts_with("GPU-")) {
    return std::find_if(all.begin(), all.end(), [entry](const Gpu& gpu) { return gpu.uuid.starts_with(entry); });
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  const bool valid = error == std::errc() && end == entry.data() + entry.size() && index < all.size();
  return valid ? all.begin() + static_cast<std::ptrdiff_t>(index) : all.end();
}

}  // namespace

std::vector<Gpu> visible_gpus(const std::vector<Gpu>& all, const std::optional<std::string>& setting) {
  if (!setting) return all;
  std::vector<Gpu> visible;
  std::string_view rest = *setting;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const auto gpu = find_gpu(all, rest.substr(0, comma));
    if (gpu == all.end()) break;
    visible.push_back(*gpu);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return visible;
}

}  // namespace lockstep
