// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <thread>
#include <vector>

#include "lockstep/ddp/process_group.hpp"

namespace lockstep::testing_support {

/// Calls `body(group, rank)` on so many threads as ranks, and closes their groups. A rank that fails aborts its group.
/// @throws what the first rank in the order of ranks has thrown
template <typename Body>
void on_thread_ranks(int ranks, const Body& body) {
  std::vector<ProcessGroup> groups = ProcessGroup::of_threads(ranks, {.wait = {.spins_before_yield = 0}});
  std::vector<std::exception_ptr> failures(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(groups[rank], static_cast<int>(rank));
        groups[rank].close();
      } catch (const Error& error) {
        failures[rank] = std::current_exception();
        groups[rank].abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep::testing_support
