// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

/// Values by name that all processes of a job can write and read. Ranks find each other by it (`from_store`), and use
/// it again when they make or split groups, never in an operation. Any thread may call it. Programs can derive their
/// own from it.
class KeyValueStore {
 public:
  KeyValueStore() = default;
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;
  virtual ~KeyValueStore() = default;

  /// Overwrites the value of the key. @throws Error{transport | io}
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits for the key. @return its value; nothing if it has none after `at_most`, which may be 0
  /// @throws Error{transport | io}
  virtual std::optional<std::string> get(const std::string& key, std::chrono::duration<double> at_most) = 0;
};

/// Makes a store of the files in a folder, which is made if it is missing: on one host, or on a file system that all
/// hosts share. What an earlier job has left there does no harm, and two jobs at a time need two folders.
/// @throws Error{io} that names the folder and the reason
std::unique_ptr<KeyValueStore> make_file_store(const std::string& folder);

/// Makes a store that one process of the job serves to all. It speaks the protocol of PyTorch's TCPStore, so that a
/// program can use the one that torchrun serves.
/// @param host    name or address of the process that serves. If it is an address of its machine, or localhost, the
///                process listens only there, and otherwise at the interfaces that LOCKSTEP_SOCKET_IFNAME or
///                NCCL_SOCKET_IFNAME chooses, or at all its addresses
/// @param port    free at the process that serves
/// @param serves  whether this process serves, by a thread of its own, until the store is destroyed
/// @param at_most how long to wait for the server
/// @throws Error{transport} that names host, port and reason
std::unique_ptr<KeyValueStore> make_tcp_store(const std::string& host, std::uint16_t port, bool serves,
                                              std::chrono::duration<double> at_most = usual_deadline);

/// The place of a process in its job.
struct StoreRank {
  Rank rank;
  int size = 1;
  std::string job = "job";  ///< a name that no other job has that uses the same store at this time
};

/// Makes a set of processes that know nothing of each other but a store and their ranks. Collective over the job.
/// @param deadline  how long this call and each later step of the set waits for all ranks
/// @throws Error{timeout} that names the ranks that have not come; Error{mismatch} if they name different sizes;
///         Error{invalid_argument} unless 0 ≤ rank < size; Error{transport | io} of the store
/// @cost for each rank about twelve messages to the store
RankSet from_store(std::shared_ptr<KeyValueStore> store, const StoreRank& place,
                   std::chrono::duration<double> deadline = usual_deadline);

/// Makes sets whose ranks are threads of this process: each thread takes one of them, by rank. It is for tests and for
/// trying things out: threads exchange data in the memory of the process.
/// @throws Error{invalid_argument} unless there is a rank, and for a deadline as `RankSet::set_deadline`
std::vector<RankSet> from_threads(int ranks, std::chrono::duration<double> deadline = usual_deadline);

/// Makes a set of ranks that can gather bytes from all in a way of their own: by another library, or a language's
/// runtime. Collective.
/// @param all_gather  collective over the ranks: fills `all` with the bytes of each rank, by rank. It is called once,
///                    and may throw
/// @throws as from_store
RankSet from_exchange(Rank rank, int size,
                      const std::function<void(std::span<const std::byte> mine, std::span<std::byte> all)>& all_gather,
                      std::chrono::duration<double> deadline = usual_deadline);

/// Makes a set of what torchrun tells its processes: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, where rank 0 serves
/// the store unless torchrun does (TORCHELASTIC_USE_AGENT_STORE). Other launchers can set the first four.
/// @throws as from_store; Error{invalid_argument} that names a variable that is missing or is no number
RankSet from_environment(std::chrono::duration<double> deadline = usual_deadline);

}  // namespace lockstep
