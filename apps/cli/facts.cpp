// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/facts.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "apps/cli/build_id.hpp"
#include "base/wire_protocol.hpp"
#include "platform/machine/topology.hpp"
#include "platform/mpi/bootstrap.hpp"

namespace lockstep::cli {
namespace {

/// What a difference in a variable does.
enum class Harm {
  none,     ///< it is not compared
  speed,    ///< ranks are of different speed, or it is unclear
  bits,     ///< a rank computes other bits
  deadlock  ///< ranks with GPUs may wait for each other forever
};

/// All variables whose names begin so.
struct Variables {
  std::string_view prefix;
  Harm harm;
};

/// The first row that fits decides.
constexpr std::array variables = {
    // Hosts may have interfaces, files and logs of their own; scripts and tests of lockstep have variables, too.
    Variables{"NCCL_SOCKET_IFNAME", Harm::none}, Variables{"NCCL_IB_", Harm::none}, Variables{"NCCL_DEBUG", Harm::none},
    Variables{"NCCL_HOSTID", Harm::none}, Variables{"NCCL_TOPO_", Harm::none}, Variables{"NCCL_GRAPH_", Harm::none},
    Variables{"NCCL_CONF_FILE", Harm::none},
    // Ranks that choose another algorithm or cut messages otherwise wait for messages that nobody sends.
    Variables{"NCCL_ALGO", Harm::deadlock}, Variables{"NCCL_PROTO", Harm::deadlock},
    Variables{"NCCL_BUFFSIZE", Harm::deadlock}, Variables{"NCCL_LL_BUFFSIZE", Harm::deadlock},
    Variables{"NCCL_LL128_BUFFSIZE", Harm::deadlock}, Variables{"NCCL_NVLS_ENABLE", Harm::deadlock},
    Variables{"NCCL_COLLNET_ENABLE", Harm::deadlock}, Variables{"NCCL_", Harm::speed},
    Variables{"OMP_NUM_THREADS", Harm::speed}, Variables{"OMP_WAIT_POLICY", Harm::speed},
    Variables{"ONEDNN_VERBOSE", Harm::none}, Variables{"DNNL_VERBOSE", Harm::none},
    Variables{"ONEDNN_JIT_", Harm::none}, Variables{"DNNL_JIT_", Harm::none}, Variables{"ONEDNN_", Harm::bits},
    Variables{"DNNL_", Harm::bits}, Variables{"LOCKSTEP_HOSTS", Harm::none}, Variables{"LOCKSTEP_LAUNCH", Harm::none},
    Variables{"LOCKSTEP_REQUIRE", Harm::none}, Variables{"LOCKSTEP_", Harm::speed}};

Harm harm_of(std::string_view name) {
  const auto* const row = std::find_if(variables.begin(), variables.end(),
                                       [&](const Variables& some) { return name.starts_with(some.prefix); });
  return row == variables.end() ? Harm::none : row->harm;
}

/// Whether this thread's processor keeps numbers below the smallest normal one. If one rank does not, its updates
/// differ from those of the others, and so do the weights after some time.
bool keeps_subnormal_numbers() {
  const volatile float smallest = std::numeric_limits<float>::min();
  return smallest / 2 != 0;
}

}  // namespace

std::vector<Term> variables_to_compare(const Environment& environment, const RunNature& nature) {
  std::vector<Term> settings;
  for (const auto& [name, value] : environment) {
    const Harm harm = harm_of(name);
    if (harm == Harm::none) continue;
    const bool does_harm = (harm == Harm::bits && nature.same_bits) || (harm == Harm::deadlock && nature.on_gpus);
    settings.push_back({"the variable " + name, "'" + value + "'", !does_harm});
  }
  return settings;
}

std::vector<Term> facts_of_process(const RunNature& nature) {
  std::vector<Term> facts = variables_to_compare(read_environment(), nature);
  facts.push_back({"build", build_id()});
  facts.push_back({"protocol", std::to_string(wire_protocol)});
  facts.push_back({"subnormal numbers", keeps_subnormal_numbers() ? "kept" : "flushed to zero"});
  facts.push_back({"MPI library", mpi_library_version(), true});
  facts.push_back({"hwloc", hwloc_library_version(), true});
  facts.push_back({"processor", processor_model(), true});
  return facts;
}

}  // namespace lockstep::cli
