#include "backends/plan/node_link.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

constexpr std::int64_t line_pair = 128;  // processors fetch cache lines in pairs

// Kind, dtype and operator in four bits each, root in 12, count in 40.
std::uint64_t pack(const Collective& c) {
  const bool scatter = c.kind == CollectiveKind::reduce_scatter;
  const auto count = static_cast<std::uint64_t>((scatter ? c.out : c.in).count.value);
  return static_cast<std::uint64_t>(c.kind) | static_cast<std::uint64_t>(c.out.dtype) << 4U |
         static_cast<std::uint64_t>(c.op) << 8U | (static_cast<std::uint64_t>(c.root.value) & 0xfffU) << 12U |
         count << 24U;
}

std::string describe(std::uint64_t call) {
  const auto kind = static_cast<CollectiveKind>(call & 0xfU);
  std::string text(name(kind));
  if (kind == CollectiveKind::barrier) return text;
  text += " of " + std::to_string(call >> 24U) + " " + std::string(name(static_cast<DType>(call >> 4U & 0xfU)));
  const bool adds =
      kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce;
  if (adds) text += " (" + std::string(name(static_cast<ReduceOp>(call >> 8U & 0xfU))) + ")";
  const std::string root = std::to_string(call >> 12U & 0xfffU);
  if (kind == CollectiveKind::broadcast) text += " from rank " + root;
  if (kind == CollectiveKind::reduce) text += " to rank " + root;
  return text;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 32U;
}

}  // namespace

Announcement announce(const Collective& collective) {
  Announcement result;
  result.call = pack(collective);
  std::uint64_t hash = mix(0, result.call);
  for (const char c : collective.label) hash = mix(hash, static_cast<unsigned char>(c));
  result.signature = static_cast<std::uint32_t>(hash);
  return result;
}

Bytes NodeLink::slot_bytes(Bytes staging) {
  const auto bytes = static_cast<std::int64_t>(sizeof(Slot)) + staging.value;
  return {(bytes + line_pair - 1) / line_pair * line_pair};
}

Bytes NodeLink::control_bytes(int channels, Bytes staging) { return {2 * channels * slot_bytes(staging).value}; }

NodeLink::NodeLink(std::shared_ptr<NodeMemory> memory, std::vector<int> ranks, int channels, Bytes staging)
    : memory_(std::move(memory)),
      ranks_(std::move(ranks)),
      local_of_rank_(static_cast<std::size_t>(*std::max_element(ranks_.begin(), ranks_.end()) + 1), -1),
      local_rank_(memory_->rank()),
      slot_bytes_(slot_bytes(staging).value),
      channels_(static_cast<std::size_t>(channels)) {
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    local_of_rank_[static_cast<std::size_t>(ranks_[i])] = static_cast<int>(i);
}

NodeLink::Slot& NodeLink::slot(int local_rank, int channel) const {
  const std::uint32_t turn = channels_[static_cast<std::size_t>(channel)].block & 1U;
  return *reinterpret_cast<Slot*>(memory_->control(local_rank) + (2 * channel + turn) * slot_bytes_);
}

void NodeLink::open(int channel, const Announcement& announcement) {
  Channel& own = channels_[static_cast<std::size_t>(channel)];
  ++own.block;
  own.signature = announcement.signature;
  own.call = announcement.call;
  Slot& here = slot(local_rank_, channel);
  here.input = announcement.input;
  here.output = announcement.output;
  here.call = announcement.call;
}

void NodeLink::publish(int channel, int phase) {
  const Channel& own = channels_[static_cast<std::size_t>(channel)];
  const std::uint64_t reached = own.first_phase() + static_cast<std::uint32_t>(phase);
  slot(local_rank_, channel).flag.store(reached << 32U | own.signature, std::memory_order_release);
  memory_->ring();
}

bool NodeLink::has_published(int channel, int rank, int phase) const {
  const Channel& own = channels_[static_cast<std::size_t>(channel)];
  const Slot& there = slot(local(rank), channel);
  const std::uint64_t flag = there.flag.load(std::memory_order_acquire);
  const auto reached = static_cast<std::int32_t>(static_cast<std::uint32_t>(flag >> 32U) - own.first_phase());
  if (reached < 0) return false;
  if (reached < phases && static_cast<std::uint32_t>(flag) != own.signature) refuse(rank, there.call, own);
  return reached >= phase;
}

NodeLink::Shown NodeLink::shown(int local_rank, int channel, std::uint64_t location) const {
  if (location == Announcement::staged) return {data(local_rank, channel), true};
  return {memory_->at(local_rank, location), false};
}

NodeLink::Shown NodeLink::input_of(int channel, int rank) const {
  return shown(local(rank), channel, slot(local(rank), channel).input);
}

NodeLink::Shown NodeLink::output_of(int channel, int rank) const {
  return shown(local(rank), channel, slot(local(rank), channel).output);
}

void NodeLink::refuse(int rank, std::uint64_t their_call, const Channel& own) const {
  const std::string theirs = describe(their_call);
  const std::string ours = describe(own.call);
  throw Error(ErrorCode::mismatch,
              theirs == ours ? "rank " + std::to_string(rank) + " gives this " + ours + " another label"
                             : "rank " + std::to_string(rank) + " calls " + theirs + " where this rank calls " + ours,
              {.peers = {rank}});
}

void NodeLink::check_alive() const {
  const std::optional<int> dead = memory_->dead_peer();
  if (!dead) return;
  const int rank = ranks_[static_cast<std::size_t>(*dead)];
  throw Error(ErrorCode::transport, "rank " + std::to_string(rank) + ", a process on this host, has ended",
              {.peers = {rank}});
}

}  // namespace lockstep::backends
