// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <random>
#include <sstream>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/platform/bootstrap.hpp"
#include "platform/available_memory.hpp"
#include "platform/descriptor_passing.hpp"
#include "platform/futex.hpp"
#include "platform/node_memory_processes.hpp"

namespace lockstep {
namespace {

/// Processes have 47 bits of addresses; a quarter of them for this leaves room for everything else.
constexpr std::int64_t addresses_for_heaps = std::int64_t{1} << 45;

Bytes heap_size(int ranks, const NodeMemoryOptions& options) {
  const Bytes wanted = options.heap_bytes.value_or(installed_memory());
  const std::int64_t most = addresses_for_heaps / ranks;
  return {std::max(huge_page_bytes, std::min(wanted.value, most) / huge_page_bytes * huge_page_bytes)};
}

std::uint64_t random_nonce() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;  // never what an empty file holds
}

/// What rank 0 tells the others before they come to fetch its file.
struct Announcement {
  NodeLayout layout;
  std::uint64_t nonce = 0;
  std::string socket;  ///< "-" where nobody will come
};

std::string to_text(const Announcement& announcement) {
  std::ostringstream text;
  text << announcement.layout.ranks << ' ' << announcement.layout.control.value << ' ' << announcement.layout.heap.value
       << ' ' << announcement.nonce << ' ' << announcement.socket;
  return text.str();
}

Announcement announcement_from(const std::string& text) {
  Announcement announcement;
  std::istringstream in(text);
  in >> announcement.layout.ranks >> announcement.layout.control.value >> announcement.layout.heap.value >>
      announcement.nonce >> announcement.socket;
  return announcement;
}

/// The way of one rank into the node's memory, in steps. After each step all ranks hear whether all succeeded; so none
/// waits for one that gave up.
class Entrance {
 public:
  Entrance(const MpiGroup& node, const NodeMemoryOptions& options)
      : rank_(node.rank().value), ranks_(node.size()), options_(options) {}

  void create() {
    if (rank_ != 0) return;
    announced_ = {{ranks_, whole_pages(options_.control_bytes), heap_size(ranks_, options_)}, random_nonce(), "-"};
    memory_ = std::make_shared<ProcessMemory>(SharedFile(announced_.layout.file()), announced_.layout, rank_);
    if (ranks_ == 1) return;
    sender_ = std::make_unique<DescriptorSender>(ranks_ - 1);
    announced_.socket = sender_->name();
  }

  void connect() {
    if (whole_pages(options_.control_bytes) != announced_.layout.control) {
      throw Error(ErrorCode::mismatch,
                  "wants a control area of " + std::to_string(whole_pages(options_.control_bytes).value) +
                      " bytes, local rank 0 one of " + std::to_string(announced_.layout.control.value));
    }
    if (rank_ != 0) connection_ = connect_to_sender(announced_.socket, options_.deadline);
  }

  void pass() {
    if (sender_ != nullptr) sender_->send(memory_->descriptor(), options_.deadline);
    if (rank_ == 0) return;
    SharedFile file(receive_descriptor(connection_, options_.deadline), announced_.layout.file());
    memory_ = std::make_shared<ProcessMemory>(std::move(file), announced_.layout, rank_);
  }

  void enter() { memory_->enter(announced_.nonce); }
  void meet() { memory_->meet(announced_.nonce); }

  [[nodiscard]] std::string announcement() const { return rank_ == 0 ? to_text(announced_) : std::string(); }
  void hear(const std::string& announcement) { announced_ = announcement_from(announcement); }
  [[nodiscard]] std::shared_ptr<ProcessMemory> memory() const { return memory_; }

 private:
  int rank_;
  int ranks_;
  NodeMemoryOptions options_;
  Announcement announced_;
  std::unique_ptr<DescriptorSender> sender_;
  Descriptor connection_;
  std::shared_ptr<ProcessMemory> memory_;
};

/// Makes one step. Collective. @return the first rank's reason that it failed; empty if it succeeded everywhere
std::string together(const MpiGroup& node, Entrance& entrance, void (Entrance::*step)()) {
  std::string mine;
  try {
    (entrance.*step)();
  } catch (const Error& error) {
    mine = local_rank_name(node.rank().value) + error.message();
  } catch (const std::exception& error) {
    mine = local_rank_name(node.rank().value) + error.what();
  }
  for (std::string& reason : all_gather_strings(node, mine)) {
    if (!reason.empty()) return std::move(reason);
  }
  return {};
}

}  // namespace

std::shared_ptr<NodeMemory> make_node_memory(const MpiGroup& node, const NodeMemoryOptions& options,
                                             std::string& why_not) {
  Entrance entrance(node, options);
  why_not = together(node, entrance, &Entrance::create);
  if (!why_not.empty()) return nullptr;
  entrance.hear(broadcast_string(node, entrance.announcement(), Rank{0}));
  for (const auto step : {&Entrance::connect, &Entrance::pass, &Entrance::enter, &Entrance::meet}) {
    why_not = together(node, entrance, step);
    if (!why_not.empty()) return nullptr;
  }
  // Asked last and by all alike: a rank that does not register could not be reached by the others' barriers.
  const auto able = all_gather_numbers(node, options.membarrier && register_for_barriers() ? 1 : 0);
  const bool membarrier = std::find(able.begin(), able.end(), 0) == able.end();
  return std::make_shared<NodeMemory>(entrance.memory()->view(membarrier), entrance.memory());
}

}  // namespace lockstep
