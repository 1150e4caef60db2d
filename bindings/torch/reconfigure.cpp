// SPDX-License-Identifier: Apache-2.0
// Groups whose members change.
#include <algorithm>
#include <future>
#include <sstream>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "backend.hpp"
#include "lockstep/base/error.hpp"
#include "ranks.hpp"

#ifdef C10D_BACKEND_HAS_RECONFIGURE
namespace lockstep::bindings {
namespace {

using Clock = std::chrono::steady_clock;
using Handles = std::vector<c10d::ReconfigureHandle>;

// A handle is this, the time when the back end was made, and its store's port and host, with a separator between them.
constexpr std::string_view kind = "lockstep";
constexpr char separator = '/';

/// Handles of equal times differ in their hosts or ports.
std::string handle_of(const std::string& host, std::uint16_t port) {
  const std::chrono::nanoseconds time = std::chrono::system_clock::now().time_since_epoch();
  std::ostringstream text;
  text << kind << separator << time.count() << separator << port << separator << host;
  return text.str();
}

/// Connects to the store of a member. A member that lives answers at once, and PyTorch's store takes longer than it is
/// told to give up, without end if the member's process is stopped: so a thread waits for that.
c10::intrusive_ptr<c10d::Store> store_of(const c10d::ReconfigureHandle& handle, std::chrono::milliseconds at_most) {
  std::istringstream text(handle);
  std::string its_kind;
  std::string time;
  std::string host;
  std::uint16_t port = 0;
  std::getline(text, its_kind, separator);
  std::getline(text, time, separator);
  text >> port;
  text.ignore();
  std::getline(text, host);
  TORCH_CHECK(its_kind == kind && !host.empty(), "this is no handle of lockstep's");
  const c10d::TCPStoreOptions options{.port = port, .waitWorkers = false, .timeout = at_most / 2};
  std::packaged_task<c10::intrusive_ptr<c10d::Store>()> connect(
      [=] { return c10::make_intrusive<c10d::TCPStore>(host, options); });
  std::future<c10::intrusive_ptr<c10d::Store>> store = connect.get_future();
  std::thread(std::move(connect)).detach();
  TORCH_CHECK(store.wait_for(at_most) == std::future_status::ready,
              "its process has ended, is stopped, or cannot be reached");
  return store.get();
}

/// The members by their rank. The times in handles have equal numbers of digits, so the oldest member is first.
Handles in_order(const c10d::ReconfigureOptions& options) {
  if (const auto* const given = std::get_if<Handles>(&options.handles)) return *given;
  const auto& set = std::get<std::unordered_set<c10d::ReconfigureHandle>>(options.handles);
  Handles sorted(set.begin(), set.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

Backend::Backend(const std::string& host, int rank, int size, std::chrono::milliseconds timeout, bool is_watched)
    : c10d::Backend(rank, size), options_(c10::make_intrusive<Options>("lockstep", timeout)), is_watched_(is_watched) {
  const auto store = c10::make_intrusive<c10d::TCPStore>(
      "localhost", c10d::TCPStoreOptions{.port = 0, .isServer = true, .waitWorkers = false});
  handle_ = handle_of(host, store->getPort());
  store_ = store;
}

c10d::ReconfigureHandle Backend::get_reconfigure_handle() const {
  TORCH_CHECK(store_,
              "lockstep: the members of this group stay: init_process_group(..., enable_reconfigure=True) makes "
              "one whose members can change");
  return handle_;
}

c10::intrusive_ptr<c10d::Work> Backend::reconfigure(const c10d::ReconfigureOptions& options) {
  const Handles members = in_order(options);
  const auto mine = std::find(members.begin(), members.end(), get_reconfigure_handle());
  TORCH_CHECK(!closed_, "lockstep: reconfigure() after the process group was destroyed");
  TORCH_CHECK(mine != members.end(), "lockstep: this rank's handle, ", handle_, ", is none of the ", members.size(),
              " handles of reconfigure()");
  TORCH_CHECK(std::unordered_set<std::string>(members.begin(), members.end()).size() == members.size(),
              "lockstep: reconfigure() got a handle twice");
  TORCH_CHECK(used_.insert(options.uuid).second, "lockstep: reconfigure() got the uuid ", options.uuid,
              " again: give each group of this back end another one");
  const std::string why = "the process group was reconfigured";
  // Ranks that wait in a group that has failed learn of it at once. Otherwise they may yet end operations that have
  // ended here, so that group goes on until all members have come.
  if (served_ && served_->has_failed) abandon(why);
  const auto rank = static_cast<int>(mine - members.begin());
  const auto size = static_cast<int>(members.size());
  const auto end = Clock::now() + options.timeout.value_or(options_->timeout);
  const auto left = [&] {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()), std::chrono::milliseconds(1));
  };
  try {
    const auto store = c10::make_intrusive<c10d::PrefixStore>("reconfigure/" + std::to_string(options.uuid),
                                                              rank == 0 ? store_ : store_of(members.front(), left()));
    auto group = make_group_from_store(store, rank, size, left(), options_->timeout, is_watched_);
    const bool all_stay = std::all_of(members_.begin(), members_.end(), [&](const std::string& one) {
      return std::find(members.begin(), members.end(), one) != members.end();
    });
    if (!all_stay || !close_group()) abandon(why);
    served_ = std::make_shared<ServedGroup>();
    served_->group = std::move(group);
  } catch (const c10::Error& error) {
    const std::string what = "reconfigure: the store of rank 0 (" + members.front() + ") does not answer rank " +
                             std::to_string(rank) + ": " + error.what_without_backtrace();
    abandon(what);
    std::rethrow_exception(torch_error(Error(ErrorCode::transport, what, {.peers = {0}})));
  } catch (const std::exception& error) {
    abandon(std::string("reconfigure: ") + error.what());
    std::rethrow_exception(torch_error(error));
  }
  members_ = members;
  rank_ = rank;
  size_ = size;
  sequence_ = 0;
  coalesced_.reset();
  auto work = c10::make_intrusive<TorchWork>(rank, c10d::OpType::UNKNOWN, std::vector<at::Tensor>());
  work->end(nullptr);
  return work;
}

/// Closes the group, all of whose ranks do, so that nothing of it stays in use.
/// @return false if an operation is under way, or a group was split from it
bool Backend::close_group() {
  if (!served_ || served_->has_failed || !parts_.empty()) return false;
  try {
    const auto turn = served_->group->take_turn();
    served_->group->close();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Lets the operations of the group, and of those that were split from it, fail.
void Backend::abandon(const std::string& why) {
  for (const auto& part : std::exchange(parts_, {}))
    if (const auto backend = part.lock()) backend->abandon(why);
  if (!served_ || closed_) return;
  served_->has_failed = true;
  abort_with(why);
  Service::instance().drain(served_);
}

}  // namespace lockstep::bindings
#endif
