// SPDX-License-Identifier: Apache-2.0
#include "ddp/on_gpus.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>

#include "platform/gpu/gpu.hpp"

namespace lockstep::ddp {

using backends::NcclAlgorithm;
using collectives::Algorithm;

namespace {

/// Returns the GPUs that are visible to this process, by CUDA device index.
std::vector<Gpu> gpus_of_runtime(const Topology& machine) {
  std::vector<Gpu> seen;
  const int gpus = gpu_count();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const GpuProperties properties = gpu_properties(gpu);
    seen.push_back({.model = properties.name, .uuid = properties.uuid, .pci_bus_id = properties.pci_bus_id});
  }
  return locate_gpus(std::move(seen), machine.installed_gpus);
}

/// Returns whether this version of NCCL refuses two ranks whose GPUs have the same PCI bus ID, as all MIG instances of
/// a GPU do; later versions compare UUIDs.
/// @source NCCL 2.28.9, 2.29.7 and 2.30.7, src/init.cc
bool knows_gpus_by_place(std::string_view nccl_version) {
  int major = 0;
  int minor = 0;
  const auto dot = std::min(nccl_version.find('.'), nccl_version.size());
  std::from_chars(nccl_version.data(), nccl_version.data() + dot, major);
  std::from_chars(nccl_version.data() + std::min(dot + 1, nccl_version.size()),
                  nccl_version.data() + nccl_version.size(), minor);
  return std::pair(major, minor) < std::pair(2, 30);
}

/// Returns whether a test lets ranks share a GPU, so that operations of several ranks run on a machine with one. NCCL
/// then has to be told that they are on different hosts (NCCL_HOSTID). It is slow, and NVIDIA advises against it.
bool tests_share_gpus() { return std::getenv("LOCKSTEP_TEST_SHARED_GPU") != nullptr; }

}  // namespace

void refuse_on_gpus(const GroupOptions& options) {
  if (options.checksum) {
    throw Error(ErrorCode::unsupported,
                "a checksum is for messages of lockstep's own algorithms, and NCCL carries those of GPUs: leave it out "
                "on cuda");
  }
  if (!options.compress) return;
  throw Error(ErrorCode::unsupported, "the compression " + std::string(name(*options.compress)) +
                                          " is for sums in host memory: leave it out on cuda");
}

NcclAlgorithm nccl_algorithm(const backends::Method& method) {
  const collectives::Selection* selection = backends::selection_of(method);
  if (selection != nullptr && !selection->forced) return NcclAlgorithm::automatic;
  if (selection != nullptr) {
    switch (selection->forced->algorithm) {
      case Algorithm::ring: return NcclAlgorithm::ring;
      case Algorithm::double_tree: return NcclAlgorithm::tree;
      case Algorithm::tree_order: return NcclAlgorithm::tree_order;
      default: break;
    }
  }
  throw Error(ErrorCode::unsupported,
              "the algorithm " + std::string(name(method)) +
                  " has no meaning on cuda: choose auto, which is NCCL's own choice, ring, tree or tree-order");
}

Topology machine_with_gpus() {
  Topology machine = discover_topology();
  if (auto gpus = gpus_of_runtime(machine); !gpus.empty()) machine.gpus = std::move(gpus);
  return machine;
}

std::vector<int> gpus_of(const std::vector<GpuChoices>& ranks, const ClusterShape& shape) {
  std::vector<int> gpus(ranks.size());
  for (int node = 0; node < shape.nodes(); ++node) {
    const std::vector<int> members = shape.ranks_on(node);
    std::vector<GpuChoices> choices;
    for (const int rank : members) choices.push_back(ranks[static_cast<std::size_t>(rank)]);
    const auto assigned = assign_gpus(choices);
    for (std::size_t i = 0; i < members.size(); ++i) gpus[static_cast<std::size_t>(members[i])] = assigned[i].value();
  }
  return gpus;
}

std::optional<Error> crowded_host(Rank rank, const std::vector<GpuChoices>& ranks, const ClusterShape& shape,
                                  const std::vector<std::string>& hosts) {
  if (tests_share_gpus()) return std::nullopt;
  const auto me = static_cast<std::size_t>(rank.value);
  const std::vector<int> members = shape.ranks_on(shape.node_of_rank[me]);
  std::set<std::string> gpus;
  for (const int member : members)
    for (const Gpu& gpu : ranks[static_cast<std::size_t>(member)].visible) gpus.insert(gpu.uuid);
  if (members.size() <= gpus.size()) return std::nullopt;
  const std::string number = std::to_string(gpus.size());
  return Error(ErrorCode::invalid_argument,
               "host " + hosts[me] + " has " + std::to_string(members.size()) + " ranks, which see " + number +
                   (gpus.size() == 1 ? " GPU (" + *gpus.begin() + ")" : " GPUs") +
                   ": each needs one of its own. Start no more than " + number +
                   " there, or let the launcher or CUDA_VISIBLE_DEVICES show more",
               {.rank = rank.value, .host = hosts[me]});
}

std::optional<Error> shared_gpu(Rank rank, const std::vector<Gpu>& gpus, const std::vector<std::string>& hosts,
                                std::string_view nccl_version) {
  if (tests_share_gpus()) return std::nullopt;
  const auto me = static_cast<std::size_t>(rank.value);
  const auto of_a_pair = [&](std::size_t other, const std::string& what) {
    return Error(ErrorCode::invalid_argument,
                 "ranks " + std::to_string(std::min(me, other)) + " and " + std::to_string(std::max(me, other)) + what +
                     ". Each needs one of its own: let the launcher or CUDA_VISIBLE_DEVICES show them others",
                 {.rank = rank.value, .host = hosts[me], .peers = {static_cast<int>(other)}});
  };
  for (std::size_t other = 0; other < gpus.size(); ++other) {
    if (other == me) continue;
    if (gpus[other].uuid == gpus[me].uuid) return of_a_pair(other, " have the same GPU, " + gpus[me].uuid);
    if (knows_gpus_by_place(nccl_version) && hosts[other] == hosts[me] && gpus[other].pci_bus_id == gpus[me].pci_bus_id)
      return of_a_pair(other, " have instances of one GPU, " + gpus[me].pci_bus_id + ", and NCCL " +
                                  std::string(nccl_version) + " does not tell these apart, as 2.30 does");
  }
  return std::nullopt;
}

namespace {

/// Returns this rank's GPU in the list of its host.
/// @throws Error{invalid_argument} naming the list, an index that is absent or repeated, or the number of ranks
int listed_gpu(const RankSet& group, const std::vector<int>& listed) {
  std::string list;
  for (const int gpu : listed) list += (list.empty() ? "" : ",") + std::to_string(gpu);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "the list of GPUs " + list + ' ' + why,
                {.rank = group.rank().value, .host = group.host()});
  };
  const int gpus = gpu_count();
  for (const int gpu : listed) {
    if (gpu < 0 || gpu >= gpus)
      refuse("has " + std::to_string(gpu) + ", and host " + group.host() + " shows " + std::to_string(gpus) +
             (gpus == 1 ? " GPU" : " GPUs") + ", numbered from 0 in the order of CUDA_VISIBLE_DEVICES");
    if (std::count(listed.begin(), listed.end(), gpu) > 1)
      refuse("has " + std::to_string(gpu) + " twice: list each GPU once");
  }
  const Place place = place_of(group.shape(), group.rank());
  if (static_cast<std::size_t>(place.local_size) != listed.size())
    refuse("has " + std::to_string(listed.size()) + (listed.size() == 1 ? " entry" : " entries") + ", and host " +
           group.host() + " has " + std::to_string(place.local_size) + (place.local_size == 1 ? " rank" : " ranks") +
           ": start as many as entries, or list a GPU for each");
  return listed[static_cast<std::size_t>(place.local_rank)];
}

}  // namespace

std::string why_no_gpus(const RankSet& group, const std::string& own, bool listed) {
  const std::string mine = own.empty() ? why_no_gpu() : own;
  Agreement agreement;
  agreement.add_fact("reason", mine);
  if (mine.empty() && !listed) add_gpu_choices(agreement, machine_with_gpus());
  agreement.exchange(group);
  const std::vector<std::string> reasons = agreement.fact("reason");
  const auto first = std::find_if(reasons.begin(), reasons.end(), [](const std::string& why) { return !why.empty(); });
  if (first != reasons.end()) {
    const auto rank = static_cast<std::size_t>(first - reasons.begin());
    return "rank " + std::to_string(rank) + " on host " + group.hosts()[rank] + ": " + *first;
  }
  if (listed) return {};
  const auto ranks = gpu_choices(agreement);
  for (int rank = 0; rank < group.size(); ++rank)
    if (const auto error = crowded_host({rank}, ranks, group.shape(), group.hosts())) return error->message();
  return {};
}

void add_gpus(Agreement& agreement, const RankSet& group, const std::vector<int>& listed) {
  agreement.add({{"GPUs", listed.empty() ? "chosen near processors" : "from a list"}});
  agreement.add_check([&] {
    if (gpu_count() == 0) throw Error(ErrorCode::unsupported, "no group on GPUs: " + why_no_gpu());
    add_gpu_choices(agreement, machine_with_gpus());
    if (!listed.empty()) agreement.add_fact("listed GPU", std::to_string(listed_gpu(group, listed)));
    agreement.add_fact("NCCL", backends::nccl_version());
  });
}

int agreed_gpu(const Agreement& agreement, const RankSet& group) {
  const auto throw_first = [&](const auto& error_of_rank) {
    std::vector<std::optional<Error>> errors;
    for (int rank = 0; rank < group.size(); ++rank) errors.push_back(error_of_rank(Rank{rank}));
    throw_first_of(group, errors);
  };
  const std::vector<GpuChoices> ranks = gpu_choices(agreement);
  std::vector<int> gpus;
  for (const std::string& listed : agreement.fact("listed GPU"))
    if (!listed.empty()) gpus.push_back(std::stoi(listed));
  if (gpus.empty()) {
    throw_first([&](Rank rank) { return crowded_host(rank, ranks, group.shape(), group.hosts()); });
    gpus = gpus_of(ranks, group.shape());
  }
  std::vector<Gpu> chosen;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    chosen.push_back(ranks[rank].visible[static_cast<std::size_t>(gpus[rank])]);
  agreement.require_equal_fact("NCCL");
  const std::string nccl = agreement.fact("NCCL").front();
  throw_first([&](Rank rank) { return shared_gpu(rank, chosen, group.hosts(), nccl); });
  return gpus[static_cast<std::size_t>(group.rank().value)];
}

}  // namespace lockstep::ddp
