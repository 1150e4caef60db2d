// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/make_node_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "platform/machine/available_memory.hpp"
#include "platform/node_memory/descriptor_passing.hpp"
#include "platform/node_memory/node_file.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "platform/ranks/phase.hpp"
#include "platform/ranks/rank_link.hpp"

namespace lockstep {
namespace {

using nlohmann::json;

/// Returns the addresses that this process has left. Of 47 bits, half are for other uses.
std::int64_t addresses_left() {
  std::int64_t all = std::int64_t{1} << 46;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(all)) {
    all = static_cast<std::int64_t>(limit.rlim_cur);
  }
  std::int64_t pages_in_use = 0;
  std::ifstream("/proc/self/statm") >> pages_in_use;
  return std::max<std::int64_t>(all - pages_in_use * page_bytes(), 0);
}

/// Returns the size of a heap. One file takes a sixteenth of the addresses that are left, so that many more files fit.
Bytes heap_size(int ranks, const NodeMemoryOptions& options, std::int64_t addresses) {
  const Bytes wanted = options.heap_bytes.value_or(installed_memory());
  const std::int64_t most = addresses / 16 / ranks;
  return {std::max(huge_page_bytes, std::min(wanted.value, most) / huge_page_bytes * huge_page_bytes)};
}

std::uint64_t random_nonce() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;  // never 0, as in an empty file
}

/// The data that a rank contributes: its capabilities, and the files that it holds.
struct Candidate {
  Bytes control;
  bool membarrier = false;
  std::int64_t addresses = 0;
  std::vector<std::pair<std::uint64_t, int>> files;  ///< nonce of the file, and this process's number among its members

  friend void to_json(json& to, const Candidate& c) { to = {c.control.value, c.membarrier, c.addresses, c.files}; }
  friend void from_json(const json& from, Candidate& c) {
    c = {{from.at(0).get<std::int64_t>()}, from.at(1), from.at(2), from.at(3)};
  }
};

/// Returns the number of a rank among a file's members; nothing if it does not hold the file.
std::optional<int> member_of(const Candidate& candidate, std::uint64_t nonce) {
  for (const auto& [held, member] : candidate.files) {
    if (held == nonce) return member;
  }
  return std::nullopt;
}

/// The data that rank 0 sends to the others before they open its file.
struct Handshake {
  NodeLayout layout;
  std::uint64_t nonce = 0;
  pid_t process = 0;  ///< process that has `descriptor` open
  int descriptor = -1;
  FileIdentity file;

  friend void to_json(json& to, const Handshake& h) {
    to = {h.layout.members, h.layout.heap.value, h.nonce, h.process, h.descriptor, h.file.device, h.file.number};
  }
  friend void from_json(const json& from, Handshake& h) {
    h = {{from.at(0), {from.at(1).get<std::int64_t>()}}, from.at(2), from.at(3), from.at(4), {from.at(5), from.at(6)}};
  }
};

/// Joins one rank to the node's memory, in steps. After each step all ranks learn whether all have succeeded, so that
/// none waits for one that gave up.
class Join {
 public:
  Join(const RankSet& node, const NodeMemoryOptions& options)
      : node_(node), rank_(node.rank().value), ranks_(node.size()), options_(options) {}

  /// @return null, on every rank, if any of them failed
  std::shared_ptr<ProcessMemory> join(std::string& why_not) {
    exchange_candidates();
    why_not = differing_controls();
    if (why_not.empty() && !find_file()) make_file(why_not);
    if (why_not.empty()) take_areas(why_not);
    if (!why_not.empty()) return nullptr;
    return std::make_shared<ProcessMemory>(std::move(file_), std::move(plan_), rank_);
  }

 private:
  /// Registers for barriers on all ranks alike, because the barriers of others cannot reach a rank that is not
  /// registered.
  void exchange_candidates() {
    Candidate mine{.control = whole_pages(options_.control_bytes),
                   .membarrier = options_.membarrier && register_for_barriers(BarrierReach::node),
                   .addresses = addresses_left()};
    held_ = files().held();
    for (const auto& file : held_) mine.files.emplace_back(file->nonce(), file->member());
    for (const std::string& text : node_.exchange(json(mine).dump()))
      candidates_.push_back(json::parse(text).get<Candidate>());
    plan_.control = mine.control;
    plan_.membarrier =
        std::all_of(candidates_.begin(), candidates_.end(), [](const Candidate& o) { return o.membarrier; });
  }

  [[nodiscard]] std::string differing_controls() const {
    const Bytes first = candidates_[0].control;
    const auto odd = std::find_if(candidates_.begin(), candidates_.end(),
                                  [first](const Candidate& candidate) { return candidate.control != first; });
    if (odd == candidates_.end()) return {};
    return local_rank_name(static_cast<int>(odd - candidates_.begin())) + "wants a control area of " +
           std::to_string(odd->control.value) + " bytes, local rank 0 one of " + std::to_string(first.value);
  }

  /// Finds the first of rank 0's files that all ranks hold. The result is the same on all ranks.
  bool find_file() {
    for (const auto& [nonce, member] : candidates_[0].files) {
      plan_.member_of_rank.clear();
      for (const Candidate& candidate : candidates_) {
        if (const auto here = member_of(candidate, nonce)) plan_.member_of_rank.push_back(*here);
      }
      if (plan_.member_of_rank.size() != candidates_.size()) continue;
      file_ = *std::find_if(held_.begin(), held_.end(), [nonce = nonce](const auto& f) { return f->nonce() == nonce; });
      return true;
    }
    return false;
  }

  void make_file(std::string& why_not) {
    give_notice_of_second_memory();
    why_not = first_failure(&Join::create);
    if (!why_not.empty()) return;
    handshake_ =
        json::parse(broadcast_string(node_, rank_ == 0 ? json(handshake_).dump() : "", Rank{0})).get<Handshake>();
    why_not = first_failure(&Join::open_in_proc);
    if (why_not.empty()) pass_over_a_socket(why_not);
    for (const auto step : {&Join::sign_in, &Join::meet})
      if (why_not.empty()) why_not = first_failure(step);
    if (!why_not.empty()) return;
    files().add(file_);
    plan_.member_of_rank.clear();
    for (int rank = 0; rank < ranks_; ++rank) plan_.member_of_rank.push_back(rank);
  }

  void give_notice_of_second_memory() const {
    const bool is_first =
        std::all_of(candidates_.begin(), candidates_.end(), [](const Candidate& o) { return o.files.empty(); });
    if (is_first || rank_ != 0 || !options_.notice) return;
    options_.notice(std::to_string(ranks_) + " ranks on host " + node_.host() +
                    " share memory of their own, because not all of them are in one group that shares some already: "
                    "buffers allocated for other groups pass through staging areas here");
  }

  void create() {
    if (rank_ != 0) return;
    const auto least =
        std::min_element(candidates_.begin(), candidates_.end(),
                         [](const Candidate& a, const Candidate& b) { return a.addresses < b.addresses; });
    handshake_ = {.layout = {ranks_, heap_size(ranks_, options_, least->addresses)}, .nonce = random_nonce()};
    file_ = std::make_shared<NodeFile>(SharedFile(handshake_.layout.file()), handshake_.layout, 0, handshake_.nonce);
    handshake_.process = getpid();
    handshake_.descriptor = file_->descriptor();
    handshake_.file = file_->identity();
  }

  void open_in_proc() {
    if (rank_ == 0 || !options_.proc) return;
    Descriptor found = open_descriptor_of(handshake_.process, handshake_.descriptor, handshake_.file);
    if (found.open()) map(std::move(found));
  }

  /// Passes the file to ranks to which /proc does not show it.
  void pass_over_a_socket(std::string& why_not) {
    const auto missing = all_gather_numbers(node_, file_ == nullptr ? 1 : 0);
    if (std::find(missing.begin(), missing.end(), 1) == missing.end()) return;
    why_not = first_failure(&Join::offer_over_a_socket);
    if (!why_not.empty()) return;
    socket_ = broadcast_string(node_, rank_ == 0 ? sender_->name() : std::string(), Rank{0});
    why_not = first_failure(&Join::receive);
    sender_.reset();
  }
  void offer_over_a_socket() {
    if (rank_ == 0) sender_ = std::make_unique<DescriptorSender>(file_->descriptor(), handshake_.nonce);
  }
  void receive() {
    if (file_ == nullptr) map(receive_descriptor(socket_, handshake_.nonce, passing_deadline()));
  }
  void map(Descriptor descriptor) {
    SharedFile file(std::move(descriptor), handshake_.layout.file(), handshake_.file);
    file_ = std::make_shared<NodeFile>(std::move(file), handshake_.layout, rank_, handshake_.nonce);
  }

  void sign_in() { file_->enter(); }
  void meet() { file_->meet(); }
  /// All ranks learn each other's areas, or why there is none, in one exchange.
  void take_areas(std::string& why_not) {
    const Bytes bytes = ProcessMemory::area_bytes(rank_, ranks_, plan_.control);
    std::optional<std::int64_t> area;
    const std::string failure = failure_of([&] { area = file_->take_area(bytes); });
    for (const std::string& text : node_.exchange(area ? std::to_string(*area) : failure)) {
      std::int64_t taken = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), taken);
      if (error == std::errc() && end == text.data() + text.size()) {
        plan_.area_of_rank.push_back(taken);
      } else if (why_not.empty()) {
        why_not = text;
      }
    }
    if (!why_not.empty() && area) file_->release(*area, bytes);
  }

  /// Runs one step. @return why it failed on this rank; empty if it succeeded
  template <typename Step>
  [[nodiscard]] std::string failure_of(const Step& step) const {
    const std::optional<Error> failure = error_of(step);
    return failure ? local_rank_name(rank_) + failure->message() : std::string();
  }
  /// Runs one step. Collective. @return the reason of the first rank on which it failed; empty if it succeeded on all
  /// ranks
  std::string first_failure(void (Join::*step)()) {
    return first_reason(node_, failure_of([&] { (this->*step)(); }));
  }

  /// Returns a deadline shorter than the group's, so that a rank that waits here for a stopped rank gives up before the
  /// others ask which ranks are missing.
  [[nodiscard]] std::chrono::milliseconds passing_deadline() const {
    if (node_.link().tasks == nullptr) return options_.deadline;
    const auto half = std::chrono::duration_cast<std::chrono::milliseconds>(node_.link().deadline / 2);
    return std::min(options_.deadline, half);
  }

  [[nodiscard]] NodeFiles& files() const { return *node_.link().node_files; }

  const RankSet& node_;
  int rank_;
  int ranks_;
  const NodeMemoryOptions& options_;
  std::vector<std::shared_ptr<NodeFile>> held_;
  std::vector<Candidate> candidates_;  // candidate of each rank
  Handshake handshake_;
  std::unique_ptr<DescriptorSender> sender_;
  std::string socket_;  // name of the sender's socket
  std::shared_ptr<NodeFile> file_;
  GroupPlan plan_;
};

}  // namespace

RankSet split_by_node(const RankSet& group, const ClusterShape& shape) {
  const int rank = group.rank().value;
  return *group.split(shape.node_of_rank[static_cast<std::size_t>(rank)], rank);
}

std::shared_ptr<NodeMemory> make_node_memory(const RankSet& node, const NodeMemoryOptions& options,
                                             std::string& why_not) {
  if (node.link().shared_by_threads) {
    using Views = std::vector<std::shared_ptr<NodeMemory>>;
    const auto views = node.link().share<Views>(
        [&] { return std::make_shared<Views>(make_node_memory_of_threads(node.size(), options)); });
    return (*views)[static_cast<std::size_t>(node.rank().value)];
  }
  const Phase phase(node, "sharing memory of the node");
  const std::shared_ptr<ProcessMemory> memory = Join(node, options).join(why_not);
  if (memory == nullptr) return nullptr;
  return std::make_shared<NodeMemory>(memory->view(), memory);
}

std::shared_ptr<ControlChannel> make_control_channel(const RankSet& group, const ClusterShape& shape,
                                                     const RankSet& node) {
  ControlChannel::Member member{group.rank(), group.size(), group.host(),
                                shape.ranks_on(shape.node_of_rank[static_cast<std::size_t>(group.rank().value)]),
                                group.hosts()};
  std::string why_not;
  const NodeMemoryOptions options{.control_bytes = ControlChannel::control_bytes};
  std::shared_ptr<NodeMemory> word = make_node_memory(node, options, why_not);
  if (word == nullptr) {
    member.node = {member.rank.value};
    word = make_node_memory_of_threads(1, options).front();
  }
  // The same on every rank: those of one node get the same memory or none, and those of several never share all of it.
  const bool all_share_it = std::ssize(member.node) == member.ranks;
  auto link = all_share_it ? nullptr : group.link().make_control_link(group);
  return std::make_shared<ControlChannel>(std::move(member), std::move(word), std::move(link));
}

std::shared_ptr<ControlChannel> make_control_channel(const RankSet& group, const ClusterShape& shape) {
  RankSet node = split_by_node(group, shape);
  auto channel = make_control_channel(group, shape, node);
  node.close();
  return channel;
}

}  // namespace lockstep
