// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/facts.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>

#include "apps/cli/version.hpp"
#include "base/hash.hpp"
#include "base/wire_protocol.hpp"
#include "base/wrapped.hpp"
#include "platform/machine/topology.hpp"
#include "platform/mpi/blocking_call.hpp"
#include "platform/ranks/bootstrap.hpp"

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
    Variables{"NCCL_SOCKET_IFNAME", Harm::none}, Variables{"LOCKSTEP_SOCKET_IFNAME", Harm::none},
    Variables{"NCCL_IB_", Harm::none}, Variables{"NCCL_DEBUG", Harm::none}, Variables{"NCCL_HOSTID", Harm::none},
    Variables{"NCCL_TOPO_", Harm::none}, Variables{"NCCL_GRAPH_", Harm::none}, Variables{"NCCL_CONF_FILE", Harm::none},
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
  const auto* const row =
      std::ranges::find_if(variables, [&](const Variables& some) { return name.starts_with(some.prefix); });
  return row == variables.end() ? Harm::none : row->harm;
}

/// Whether this thread's processor keeps numbers below the smallest normal one. If one rank does not, its updates
/// differ from those of the others, and so do the weights after some time.
bool keeps_subnormal_numbers() {
  const volatile float smallest = std::numeric_limits<float>::min();
  return smallest / 2 != 0;
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += format_text("%02x", std::to_integer<unsigned>(byte));
  return digits;
}

constexpr std::string_view gnu{"GNU\0", 4};  // names of notes have a zero at their end

/// Notes are padded to words of four bytes.
std::size_t whole_words(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string build_id_of(const dl_phdr_info& object) {
  for (const ElfW(Phdr) & segment : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers
    const auto* notes = reinterpret_cast<const std::byte*>(object.dlpi_addr + segment.p_vaddr);
    if (std::string id = build_id_of_notes({notes, segment.p_memsz}); !id.empty()) return id;
  }
  return {};
}

/// Hashes the program's file, block by block. @return "unknown" if it cannot be read
std::string hash_of_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  if (!file) return "unknown";
  std::vector<char> block(std::size_t{1} << 20);
  std::uint64_t hash = 0;
  do {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash = combine(hash, hash_of(std::as_bytes(std::span(block).first(static_cast<std::size_t>(file.gcount())))));
  } while (file);
  return "file " + hexadecimal(std::as_bytes(std::span(&hash, 1)));
}

/// The build IDs of the objects in this process that belong to lockstep. The program itself comes first.
struct Found {
  bool is_first = true;
  std::string ids;
};

int visit(dl_phdr_info* object, std::size_t /*size*/, void* context) {
  Found& found = *static_cast<Found*>(context);
  const std::string_view path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  if (found.is_first) {
    const std::string id = build_id_of(*object);
    found.ids = id.empty() ? hash_of_program() : id;
  } else if (name.starts_with("liblockstep")) {
    found.ids += " and " + std::string(name) + ' ' + build_id_of(*object);
  }
  found.is_first = false;
  return 0;
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

std::string build_id_of_notes(std::span<const std::byte> notes) {
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    notes = notes.subspan(sizeof header);
    const std::size_t name_bytes = whole_words(header.n_namesz);
    if (name_bytes > notes.size() || header.n_descsz > notes.size() - name_bytes) return {};
    const std::string_view name(reinterpret_cast<const char*>(notes.data()), header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && name == gnu) return hexadecimal(notes.subspan(name_bytes, header.n_descsz));
    const std::size_t all_bytes = name_bytes + whole_words(header.n_descsz);
    if (all_bytes > notes.size()) return {};
    notes = notes.subspan(all_bytes);
  }
  return {};
}

std::string build_id() {
  Found found;
  dl_iterate_phdr(visit, &found);
  return commit() + ", " + found.ids;
}

}  // namespace lockstep::cli
