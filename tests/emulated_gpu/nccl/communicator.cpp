// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/communicator.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "emulated_gpu/nccl/rendezvous.hpp"

namespace emulated_gpu {
namespace {

std::uint64_t seed_of_ranks() {
  const char* text = std::getenv("EMULATED_GPU_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// Returns whether communicators notice the death of a peer: with every other seed, unless the environment overrides
/// it.
bool hears_of_deaths() {
  const char* text = std::getenv("EMULATED_NCCL_NOTICES");
  return text == nullptr ? seed_of_ranks() % 2 == 0 : std::string_view(text) != "0";
}

/// Returns the size below which the tree is used. NCCL uses it for small buffers, but no document says which are small:
/// none, all, or some.
std::size_t draw_size_of_trees() {
  constexpr std::array<std::size_t, 4> sizes{0, 1024, 16384, std::size_t{1} << 40};
  return sizes[Random(seed_of_ranks()).below(sizes.size())];
}

/// Returns the name by which NCCL tells hosts apart.
std::string host_id() {
  if (const char* given = std::getenv("NCCL_HOSTID")) return given;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// Returns a rank's contribution to the meeting.
std::string introduce(const Communicator& communicator) {
  const sockaddr_in address = address_for_peers();
  std::ostringstream text;
  text << address.sin_addr.s_addr << ' ' << address.sin_port << ' ' << host_id() << '/' << address.sin_addr.s_addr
       << ' ' << communicator.device.uuid << ' ' << communicator.device.pci_bus_id << ' ' << communicator.device.number
       << ' ' << draw_size_of_trees();
  return text.str();
}

Peer read_introduction(const std::string& text) {
  std::istringstream words(text);
  Peer peer;
  peer.address.sin_family = AF_INET;
  words >> peer.address.sin_addr.s_addr >> peer.address.sin_port >> peer.host >> peer.device.uuid >>
      peer.device.pci_bus_id >> peer.device.number >> peer.tree_below;
  return peer;
}

/// Formats bus ids as NCCL does: "0000:1b:00.0" becomes 1b000.
std::string short_bus_id(const std::string& id) {
  std::string digits;
  for (const char c : id)
    if (c != ':' && c != '.') digits += c;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

}  // namespace

Communicator::Communicator(int its_rank, int its_ranks, bool is_blocking)
    : rank(its_rank),
      ranks(its_ranks),
      blocking(is_blocking),
      connections_(static_cast<std::size_t>(its_ranks)),
      random_(seed_of_ranks() * 64 + static_cast<std::uint64_t>(its_rank)),
      notices_(hears_of_deaths()) {}

std::function<bool()> Communicator::stop() {
  return [this] {
    return is_aborted_ || is_interrupted_ || (parent_ != nullptr && (parent_->is_aborted_ || parent_->is_interrupted_));
  };
}

ncclResult_t Communicator::join(const ncclUniqueId& id, const std::string& where) {
  id_ = id;
  where_ = where;
  name_ = number_of(id) ^ std::hash<std::string>()(where);
  const char* algorithms = std::getenv("NCCL_ALGO");
  algorithms_ = algorithms == nullptr ? "" : algorithms;
  const auto all = meet(id, where, rank, ranks, introduce(*this), stop());
  if (!all) return fail(is_aborted_ ? ncclInternalError : ncclSystemError, "the process of the unique id is gone");
  for (const std::string& text : *all) peers.push_back(read_introduction(text));
  const ncclResult_t result = check_devices();
  is_made = result == ncclSuccess;
  return result;
}

ncclResult_t Communicator::join_part(const Communicator& parent, int its_rank, int its_ranks,
                                     const std::string& which) {
  rank = its_rank;
  ranks = its_ranks;
  connections_.resize(static_cast<std::size_t>(ranks));
  parent_ = &parent;
  const ncclResult_t result =
      join(parent.id_, parent.where_ + " part " + std::to_string(parent.meetings_) + " " + which);
  parent_ = nullptr;
  return result;
}

ncclResult_t Communicator::check_devices() {
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      const Peer& first = peers[static_cast<std::size_t>(a)];
      const Peer& second = peers[static_cast<std::size_t>(b)];
      if (first.host != second.host || first.device.pci_bus_id != second.device.pci_bus_id) continue;
      return fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(b) + " and rank " +
                                        std::to_string(a) + " both on CUDA device " +
                                        short_bus_id(first.device.pci_bus_id));
    }
  }
  return ncclSuccess;
}

SumOrder Communicator::order_of_sum(std::size_t bytes) const {
  const Algorithms allowed = allowed_algorithms(algorithms_, "allreduce");
  if (allowed.ring != allowed.tree) return allowed.tree ? SumOrder::tree : SumOrder::ring;
  return bytes < peers.front().tree_below ? SumOrder::tree : SumOrder::ring;
}

bool Communicator::has_ring_for(const char* function) const { return allowed_algorithms(algorithms_, function).ring; }

bool Communicator::reaches_peers() const {
  return std::ranges::all_of(peers, [this](const Peer& peer) { return peer.host == peers.front().host; });
}

bool Communicator::connect(const std::vector<int>& wanted) {
  for (const int peer : wanted) {
    auto& connection = connections_[static_cast<std::size_t>(peer)];
    if (peer == rank || connection) continue;
    // The delay gives other ranks time for forbidden actions.
    std::this_thread::sleep_for(std::chrono::microseconds(random_.one_in(2) ? 0 : random_.below(5000)));
    const Peer& other = peers[static_cast<std::size_t>(peer)];
    const bool is_same_host = other.host == peers[static_cast<std::size_t>(rank)].host;
    auto made = connect_pair(name_, rank, peer, other.address, is_same_host, stop());
    if (!made) {
      if (!is_aborted_ && !is_interrupted_) fail(ncclRemoteError, "rank " + std::to_string(peer) + " is gone");
      return false;
    }
    const std::scoped_lock lock(device_lock());
    connection = std::move(made);
  }
  return true;
}

std::optional<std::vector<std::string>> Communicator::meet_again(const std::string& what, const std::string& mine) {
  return meet(id_, where_ + " " + what + " " + std::to_string(meetings_++), rank, ranks, mine, stop());
}

ncclResult_t Communicator::run(std::function<ncclResult_t()> job) {
  if (blocking) {
    const ncclResult_t result = job();
    if (result != ncclSuccess && result_ == ncclSuccess) result_ = result;
    return result;
  }
  const std::scoped_lock lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!std::exchange(is_working_, true)) {
    std::thread([self = shared_from_this()] { self->work_off(); }).detach();
  }
  return ncclInProgress;
}

void Communicator::work_off() {
  for (;;) {
    std::function<ncclResult_t()> job;
    {
      const std::scoped_lock lock(mutex_);
      if (jobs_.empty()) {
        is_working_ = false;
        news_.notify_all();
        return;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    const ncclResult_t result = is_aborted_ || is_interrupted_ ? ncclInternalError : job();
    if (result != ncclSuccess && result_ == ncclSuccess) result_ = result;
  }
}

ncclResult_t Communicator::state() {
  if (result_ != ncclSuccess) return result_;
  const std::scoped_lock lock(mutex_);
  return is_working_ ? ncclInProgress : ncclSuccess;
}

ncclResult_t Communicator::fail(ncclResult_t code, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  last_error_ = why;
  return code;
}

ncclResult_t Communicator::refuse_call(ncclResult_t code, const std::string& why) {
  if (!blocking) report(code);
  return fail(code, why);
}

std::string Communicator::last_error() {
  const std::scoped_lock lock(mutex_);
  return last_error_;
}

void Communicator::report(ncclResult_t code) {
  if (result_ == ncclSuccess) result_ = code;
}

void Communicator::lose(int peer) {
  if (!notices_ || result_ != ncclSuccess) return;
  fail(ncclRemoteError, "the connection to rank " + std::to_string(peer) + " is closed");
  result_ = ncclRemoteError;
}

void Communicator::abort() {
  is_aborted_ = true;
  stop_tasks();
  wait_for_jobs();
  wait_for_stopped_tasks();
  const std::scoped_lock lock(device_lock());
  for (auto& connection : connections_) connection.reset();
}

void Communicator::revoke() {
  is_interrupted_ = true;
  stop_tasks();
  wait_for_jobs();
  stop_tasks();  // includes work that a job has put on a stream meanwhile
  is_interrupted_ = false;
  result_ = ncclSuccess;
}

void Communicator::stop_tasks() {
  const std::scoped_lock lock(device_lock());
  stopped_below_ = launched_;
}

void Communicator::wait_for_jobs() {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] { return !is_working_; });
}

/// Waits without calls that would count as the host's. Meanwhile, the GPUs' own thread continues.
void Communicator::wait_for_tasks() {
  for (;;) {
    {
      const std::scoped_lock lock(device_lock());
      if ((tasks_ == 0 && held_.use_count() == 1) || is_aborted_ || result_ != ncclSuccess) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Communicator::wait_for_stopped_tasks() {
  for (int look = 0; look < 5000; ++look) {
    {
      const std::scoped_lock lock(device_lock());
      if (started_ == done_) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace emulated_gpu
