// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/operation.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "emulated_gpu/device/memory.hpp"

namespace emulated_gpu {
namespace {

/// The header before the bytes of a transfer.
struct Frame {
  std::uint64_t signature;
  std::uint64_t bytes;
  bool operator==(const Frame&) const = default;
};

/// Returns the number of bytes that are processed at once.
std::size_t piece_of(std::size_t bytes, Random& random) {
  return std::min<std::size_t>(std::max<std::size_t>(bytes / (1 + random.below(3)), 1), std::size_t{128} << 10);
}

std::byte* at(void* address, std::size_t offset) { return static_cast<std::byte*>(address) + offset; }
const std::byte* at(const void* address, std::size_t offset) { return static_cast<const std::byte*>(address) + offset; }

/// One exchange under way.
class Run {
 public:
  Run(Communicator& communicator, Exchange what)
      : communicator_(&communicator), what_(std::move(what)), sent_(what_.out.size()), received_(what_.in.size()) {
    sum_frames_.resize(what_.sum ? static_cast<std::size_t>(communicator.ranks) : 0);
    out_frames_.resize(what_.out.size());
    in_frames_.resize(what_.in.size());
  }

  /// @return whether anything moved
  bool step(Random& random) {
    bool moved = move_connections();
    for (std::size_t i = 0; i < what_.out.size(); ++i) moved = send(i, random) || moved;
    if (what_.sum && summed_ < what_.sum->count) moved = add_up(random) || moved;
    if (is_summed()) {
      std::set<int> behind;  // peers that have not completed an earlier transfer
      for (std::size_t i = 0; i < what_.in.size(); ++i) {
        if (behind.count(what_.in[i].peer) == 0) moved = receive(i, random) || moved;
        if (!in_is_over(i)) behind.insert(what_.in[i].peer);
      }
    }
    return move_connections() || moved;
  }

  [[nodiscard]] bool is_over() const {
    for (std::size_t i = 0; i < what_.out.size(); ++i)
      if (!out_is_over(i) || !(is_self(what_.out[i].peer) || communicator_->connection(what_.out[i].peer).all_sent()))
        return false;
    for (std::size_t i = 0; i < what_.in.size(); ++i)
      if (!in_is_over(i)) return false;
    return is_summed();
  }
  [[nodiscard]] const Exchange& what() const { return what_; }

 private:
  [[nodiscard]] bool is_self(int peer) const { return peer == communicator_->rank; }
  [[nodiscard]] bool is_summed() const { return !what_.sum || summed_ == what_.sum->count; }
  [[nodiscard]] bool out_is_over(std::size_t i) const { return out_frames_[i] && sent_[i] == what_.out[i].bytes; }
  [[nodiscard]] bool in_is_over(std::size_t i) const {
    return (in_frames_[i] || is_self(what_.in[i].peer)) && received_[i] == what_.in[i].bytes;
  }

  bool move_connections() {
    bool moved = false;
    for (const int peer : what_.peers(communicator_->ranks)) {
      if (is_self(peer)) continue;
      Connection& connection = communicator_->connection(peer);
      moved = connection.move() || moved;
      if (connection.is_broken() && connection.available() == 0 && needs(peer)) communicator_->lose(peer);
    }
    return moved;
  }

  /// Returns whether the peer still has data to send or to receive.
  [[nodiscard]] bool needs(int peer) const {
    for (std::size_t i = 0; i < what_.out.size(); ++i)
      if (what_.out[i].peer == peer && !(out_is_over(i) && communicator_->connection(peer).all_sent())) return true;
    for (std::size_t i = 0; i < what_.in.size(); ++i)
      if (what_.in[i].peer == peer && !in_is_over(i)) return true;
    return !is_summed();
  }

  /// Sends to each peer in order: a later transfer starts when the earlier ones are over.
  bool send(std::size_t i, Random& random) {
    const Outgoing& out = what_.out[i];
    if (out_is_over(i)) return false;
    for (std::size_t before = 0; before < i; ++before)
      if (what_.out[before].peer == out.peer && !out_is_over(before)) return false;
    if (is_self(out.peer)) return copy_to_self(i, random);
    Connection& connection = communicator_->connection(out.peer);
    if (!connection.can_take()) return false;
    if (!out_frames_[i]) {
      const Frame frame{what_.signature, out.bytes};
      connection.put(reinterpret_cast<const std::byte*>(&frame), sizeof frame);
      out_frames_[i] = true;
    }
    const std::size_t bytes = whole_values(std::min(piece_of(out.bytes, random), out.bytes - sent_[i]));
    if (bytes > 0) connection.put(brought(at(out.from, sent_[i]), bytes), bytes);
    sent_[i] += bytes;
    return true;
  }

  /// Rounds down to whole values, but at least one, if values are scaled.
  [[nodiscard]] std::size_t whole_values(std::size_t bytes) const {
    if (!what_.scaling || bytes == 0) return bytes;
    const std::size_t element = size_of(what_.scaling->type);
    return std::max(bytes / element, std::size_t{1}) * element;
  }

  /// Returns this rank's values as they are sent to all. Valid until the next call.
  const std::byte* brought(const void* from, std::size_t bytes) {
    const std::byte* values = Memory::instance().view(from, bytes, what_.name);
    if (!what_.scaling) return values;
    auto& [type, reduction] = *what_.scaling;
    const std::size_t element = size_of(type);
    if (const void* place = std::exchange(reduction.factor_place, nullptr); place != nullptr)
      std::memcpy(reduction.factor.data(), Memory::instance().view(place, element, what_.name), element);
    scaled_.assign(values, values + bytes);
    scale(scaled_.data(), bytes / element, type, reduction);
    return scaled_.data();
  }

  /// Copies to this rank itself; the matching receive is the one from itself with the same number.
  bool copy_to_self(std::size_t i, Random& random) {
    const auto is_to_self = [this](const auto& transfer) { return is_self(transfer.peer); };
    const auto number =
        std::count_if(what_.out.begin(), what_.out.begin() + static_cast<std::ptrdiff_t>(i), is_to_self);
    std::size_t to = 0;
    for (std::ptrdiff_t seen = 0; to < what_.in.size(); ++to)
      if (is_self(what_.in[to].peer) && seen++ == number) break;
    if (to == what_.in.size() || what_.in[to].bytes != what_.out[i].bytes) return false;  // it never completes
    out_frames_[i] = true;
    const std::size_t bytes = std::min(piece_of(what_.out[i].bytes, random), what_.out[i].bytes - sent_[i]);
    if (bytes > 0) {
      std::memmove(Memory::instance().view(at(what_.in[to].to, sent_[i]), bytes, what_.name),
                   Memory::instance().view(at(what_.out[i].from, sent_[i]), bytes, what_.name), bytes);
    }
    sent_[i] += bytes;
    received_[to] = sent_[i];
    return bytes > 0;
  }

  /// Returns whether the expected frame has arrived from the peer. A different frame means that the peer calls
  /// something else.
  bool takes_frame(int peer, std::size_t bytes) {
    Connection& connection = communicator_->connection(peer);
    Frame frame{};
    if (connection.available() < sizeof frame) return false;
    std::memcpy(&frame, connection.front(), sizeof frame);
    if (!(frame == Frame{what_.signature, bytes})) return false;
    connection.take(sizeof frame);
    return true;
  }

  bool receive(std::size_t i, Random& random) {
    const Incoming& in = what_.in[i];
    if (is_self(in.peer) || in_is_over(i)) return false;
    if (!in_frames_[i]) {
      in_frames_[i] = takes_frame(in.peer, in.bytes);
      return in_frames_[i];
    }
    Connection& connection = communicator_->connection(in.peer);
    const std::size_t bytes = std::min({piece_of(in.bytes, random), in.bytes - received_[i], connection.available()});
    if (bytes == 0) return false;
    std::memcpy(Memory::instance().view(at(in.to, received_[i]), bytes, what_.name), connection.front(), bytes);
    connection.take(bytes);
    received_[i] += bytes;
    return true;
  }

  /// Reduces as many elements as all ranks have received and sent, because the result may replace them.
  bool add_up(Random& random) {
    const Sum& sum = *what_.sum;
    const std::size_t element = size_of(sum.type);
    std::size_t count = std::max<std::size_t>(1, piece_of(sum.count * element, random) / element);
    count = std::min(count, sum.count - summed_);
    for (const Outgoing& out : what_.out) {
      const auto i = static_cast<std::size_t>(&out - what_.out.data());
      if (out.from == sum.own) count = std::min(count, sent_[i] / element - std::min(sent_[i] / element, summed_));
    }
    std::vector<const std::byte*> all(static_cast<std::size_t>(communicator_->ranks));
    for (int peer = 0; peer < communicator_->ranks; ++peer) {
      if (is_self(peer)) continue;
      auto has_frame = sum_frames_.begin() + peer;
      if (!*has_frame) *has_frame = takes_frame(peer, sum.count * element);
      if (!*has_frame) return false;
      Connection& connection = communicator_->connection(peer);
      count = std::min(count, connection.available() / element);
      all[static_cast<std::size_t>(peer)] = connection.front();
    }
    if (count == 0) return false;
    all[static_cast<std::size_t>(communicator_->rank)] = brought(at(sum.own, summed_ * element), count * element);
    const std::size_t step = std::max<std::size_t>(1, sum.count / static_cast<std::size_t>(2 * communicator_->ranks));
    fold(all, Memory::instance().view(at(sum.to, summed_ * element), count * element, what_.name), count, sum.type,
         sum.reduction, sum.order, summed_, step);
    for (int peer = 0; peer < communicator_->ranks; ++peer)
      if (!is_self(peer)) communicator_->connection(peer).take(count * element);
    summed_ += count;
    return true;
  }

  Communicator* communicator_;
  Exchange what_;
  std::vector<std::size_t> sent_;
  std::vector<std::size_t> received_;
  std::vector<bool> out_frames_;
  std::vector<bool> in_frames_;
  std::vector<bool> sum_frames_;
  std::vector<std::byte> scaled_;
  std::size_t summed_ = 0;  // unit: elements
};

class Operation : public Task {
 public:
  Operation(std::shared_ptr<Communicator> communicator, std::vector<Exchange> exchanges)
      : communicator_(std::move(communicator)), number_(communicator_->launch()) {
    for (Exchange& exchange : exchanges) runs_.emplace_back(*communicator_, std::move(exchange));
  }

  Step step(Random& random) override {
    if (!std::exchange(has_started_, true)) communicator_->start_one();
    if (communicator_->is_stopped(number_)) {
      for (const Run& run : runs_) spoil(run.what());
      communicator_->finish_one();
      return Step::done;
    }
    if (communicator_->done() != number_) return Step::waiting;
    const bool moved = next_ < runs_.size() && runs_[next_].step(random);
    while (next_ < runs_.size() && runs_[next_].is_over()) ++next_;
    if (next_ < runs_.size()) return moved ? Step::moved : Step::waiting;
    communicator_->finish_one();
    return Step::done;
  }
  [[nodiscard]] std::string what() const override {
    return runs_.empty() ? "an empty group" : runs_.front().what().name;
  }
  [[nodiscard]] bool fills_the_gpu() const override { return true; }

 private:
  /// Overwrites the results of an aborted operation, because they must not be used.
  static void spoil(const Exchange& exchange) {
    const auto fill = [](const void* address, std::size_t bytes) {
      const Block* block = Memory::instance().find(address);
      if (block != nullptr && block->live && bytes > 0)
        std::memset(Memory::instance().view(address, bytes, "ncclCommAbort"), 0xff, bytes);
    };
    for (const Incoming& in : exchange.in) fill(in.to, in.bytes);
    if (exchange.sum) fill(exchange.sum->to, exchange.sum->count * size_of(exchange.sum->type));
  }

  std::shared_ptr<Communicator> communicator_;
  std::uint64_t number_;
  std::vector<Run> runs_;
  std::size_t next_ = 0;
  bool has_started_ = false;
};

}  // namespace

std::vector<int> Exchange::peers(int ranks) const {
  std::set<int> all;
  for (const Outgoing& transfer : out) all.insert(transfer.peer);
  for (const Incoming& transfer : in) all.insert(transfer.peer);
  for (int rank = 0; sum && rank < ranks; ++rank) all.insert(rank);
  return {all.begin(), all.end()};
}

std::unique_ptr<Task> run_exchanges(std::shared_ptr<Communicator> communicator, std::vector<Exchange> exchanges) {
  return std::make_unique<Operation>(std::move(communicator), std::move(exchanges));
}

}  // namespace emulated_gpu
