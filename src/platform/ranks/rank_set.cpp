// SPDX-License-Identifier: Apache-2.0
#include "lockstep/platform/ranks/rank_set.hpp"

#include <sstream>

#include "platform/ranks/phase.hpp"
#include "platform/ranks/rank_link.hpp"
#include "platform/ranks/watch.hpp"

namespace lockstep {

std::shared_ptr<const RankSet::Members> chosen(const RankSet::Members& all, const std::vector<int>& ranks) {
  auto some = std::make_shared<RankSet::Members>();
  std::vector<int> nodes;
  for (const int rank : ranks) {
    const auto index = static_cast<std::size_t>(rank);
    some->hosts.push_back(all.hosts[index]);
    nodes.push_back(all.shape.node_of_rank[index]);
  }
  some->shape = number_nodes(nodes);
  return some;
}

void require_deadline(std::chrono::duration<double> deadline) {
  constexpr double longest = 1e9;
  if (deadline.count() > 0 && deadline.count() <= longest) return;
  std::ostringstream text;
  text << "a deadline of " << deadline.count()
       << " s is not possible: set GroupOptions::deadline or WorldOptions::deadline to more than 0 s, at most 1e9 s";
  throw Error(ErrorCode::invalid_argument, text.str());
}

RankSet::RankSet(std::unique_ptr<Link> link)
    : link_(std::move(link)), members_(link_->members), rank_(link_->rank), size_(link_->size) {}

RankSet::RankSet(RankSet&&) noexcept = default;

RankSet& RankSet::operator=(RankSet&& other) noexcept {
  const RankSet before(std::move(*this));
  link_ = std::move(other.link_);
  members_ = std::move(other.members_);
  rank_ = other.rank_;
  size_ = other.size_;
  return *this;
}

RankSet::~RankSet() {
  if (link_ != nullptr && !link_->origin.is_here()) keep_in_child(std::move(link_));
}

const std::vector<std::string>& RankSet::hosts() const { return members_->hosts; }

const ClusterShape& RankSet::shape() const { return members_->shape; }

void RankSet::set_deadline(std::chrono::duration<double> deadline) {
  Link& open = link();  // refuses a closed set
  require_deadline(deadline);
  open.deadline = deadline;
}

std::vector<std::string> RankSet::exchange(std::string_view mine) const { return link().all_gather(mine); }

RankSet RankSet::dup() const { return RankSet(link().dup()); }

std::optional<RankSet> RankSet::split(std::optional<int> color, int key) const {
  if (color && *color < 0) {
    throw Error(ErrorCode::invalid_argument, "the color of a split must be at least 0, not " + std::to_string(*color) +
                                                 "; pass no color to join no group");
  }
  std::unique_ptr<Link> part = link().split(color, key);
  return part == nullptr ? std::nullopt : std::optional<RankSet>(std::move(part));
}

void RankSet::close() {
  if (link_ == nullptr) return;
  (void)link();  // refuses a child of fork()
  const std::unique_ptr<Link> closing = std::move(link_);
  leave_records(*closing);
  closing->close();
}

RankSet::Link& RankSet::link() const {
  if (link_ == nullptr) throw Error(ErrorCode::invalid_argument, "the set of ranks is closed");
  if (!link_->origin.is_here()) link_->origin.require_here("the group", {.rank = rank_.value, .host = host()});
  return *link_;
}

}  // namespace lockstep
