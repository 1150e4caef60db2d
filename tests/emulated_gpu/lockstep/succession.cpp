// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/lockstep/succession.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "emulated_gpu/lockstep/drawn_operation.hpp"
#include "lockstep/base/error.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

constexpr int slots = 8;
constexpr int streams = 3;
constexpr int steps = 40;

/// An operation that has been submitted.
class Submitted {
 public:
  explicit Submitted(Work work) : work_(std::move(work)) {}
  explicit Submitted(Prepared& prepared) : prepared_(&prepared) {}
  bool test() { return has_been_waited_for_ || (work_ ? work_->test() : prepared_->test()); }
  void wait() {
    if (!has_been_waited_for_) work_ ? work_->wait() : prepared_->wait();
    has_been_waited_for_ = true;
  }
  void order_before(Queue queue) {
    if (!has_been_waited_for_) work_ ? work_->order_before(queue) : prepared_->order_before(queue);
  }

 private:
  std::optional<Work> work_;
  Prepared* prepared_ = nullptr;
  bool has_been_waited_for_ = false;
};

/// A use of a slot, on a stream or by an operation.
struct Access {
  bool writes = false;
  int stream = -1;
  std::shared_ptr<Event> event;  // comes after the use on the stream
  std::shared_ptr<Submitted> operation;
};

/// Data that were copied out, which must be correct once the copy has been waited for.
struct Reading {
  Allocation host;
  std::vector<unsigned char> expected;
  std::string what;
};

class Program {
 public:
  Program(Ranks& ranks, std::uint64_t seed, backends::NcclAlgorithm algorithm)
      : ranks_(ranks),
        common_(seed),
        own_(seed * 64 + static_cast<unsigned>(ranks.rank()) + 1),
        expected_(static_cast<std::size_t>(ranks.size()),
                  Contents(slots, std::vector<unsigned char>(static_cast<std::size_t>(slot_bytes)))),
        accesses_(slots) {
    draw_groups();
    for (const auto& group : groups_)
      communicators_.push_back(
          ranks.make(group, progress_,
                     {.algorithm = common_() % 3 == 0 ? backends::NcclAlgorithm::tree_order : algorithm,
                      .deadline = std::chrono::seconds(60)}));
    select_gpu(ranks.gpu());
    for (int k = 0; k < slots; ++k) {
      memory_.push_back(allocate_device({slot_bytes}));
      addresses_.push_back(memory_.back().data());
    }
    streams_.resize(streams);
  }

  void run() {
    for (step_ = 0; step_ < steps; ++step_) {
      switch (common_() % 8) {
        case 0:
        case 1: fill(); break;
        case 2: copy(); break;
        case 3: read(static_cast<int>(common_() % slots)); break;
        default: communicate();
      }
      rest();
    }
    finish();
  }
  /// Lets the other ranks fail, too.
  void abandon() {
    for (const auto& c : communicators_)
      if (c) c->abort("this rank's part of the test has failed");
  }

 private:
  void draw_groups() {
    std::vector<int> all(static_cast<std::size_t>(ranks_.size()));
    std::iota(all.begin(), all.end(), 0);
    groups_.push_back(all);
    for (std::size_t more = common_() % 3; more > 0; --more) {
      std::shuffle(all.begin(), all.end(), common_);
      groups_.emplace_back(all.begin(), all.begin() + 1 + static_cast<std::ptrdiff_t>(common_() % all.size()));
    }
  }

  [[nodiscard]] Queue queue(int stream) const { return streams_[static_cast<std::size_t>(stream)].queue(); }
  int draw_stream() { return static_cast<int>(own_() % streams); }

  /// Waits without blocking in CUDA, because other operations of this rank may need progress.
  void wait_on_host(const Access& access) {
    if (access.operation) return access.operation->wait();
    while (!access.event->reached()) {
      progress_.poll();
      std::this_thread::yield();
    }
  }

  /// Orders the next use of the slot after its earlier uses. @param stream  -1: on the host
  void order(int slot, bool writes, int stream) {
    for (Access& access : accesses_[static_cast<std::size_t>(slot)]) {
      if (!writes && !access.writes) continue;
      const bool by_host = stream < 0 || own_() % 4 == 0;
      if (by_host) {
        wait_on_host(access);
      } else if (access.operation) {
        access.operation->order_before(queue(stream));
      } else if (access.stream != stream) {
        access.event->hold_back(queue(stream));
      }
    }
  }
  void note(int slot, const Access& access) {
    auto& all = accesses_[static_cast<std::size_t>(slot)];
    if (access.writes) all.clear();
    all.push_back(access);
  }
  void note_on_stream(int slot, bool writes, int stream) {
    Access access{.writes = writes, .stream = stream, .event = std::make_shared<Event>()};
    access.event->record(queue(stream));
    note(slot, access);
  }

  void fill() {
    const int slot = static_cast<int>(common_() % slots);
    for (Contents& contents : expected_)
      for (unsigned char& byte : contents[static_cast<std::size_t>(slot)]) byte = static_cast<unsigned char>(common_());
    const auto& mine = expected_[static_cast<std::size_t>(ranks_.rank())][static_cast<std::size_t>(slot)];
    sources_.push_back(own_() % 2 == 0 ? allocate_pinned({slot_bytes}) : allocate_host({slot_bytes}));
    std::memcpy(sources_.back().data(), mine.data(), mine.size());
    const int stream = draw_stream();
    order(slot, true, stream);
    copy_bytes(addresses_[static_cast<std::size_t>(slot)], sources_.back().data(), {slot_bytes}, queue(stream));
    note_on_stream(slot, true, stream);
  }

  void copy() {
    const int from = static_cast<int>(common_() % slots);
    const int to = (from + 1 + static_cast<int>(common_() % (slots - 1))) % slots;
    for (Contents& contents : expected_)
      contents[static_cast<std::size_t>(to)] = contents[static_cast<std::size_t>(from)];
    const int stream = draw_stream();
    order(from, false, stream);
    order(to, true, stream);
    copy_bytes(addresses_[static_cast<std::size_t>(to)], addresses_[static_cast<std::size_t>(from)], {slot_bytes},
               queue(stream));
    note_on_stream(from, false, stream);
    note_on_stream(to, true, stream);
  }

  void read(int slot) {
    const int stream = draw_stream();
    order(slot, false, stream);
    readings_.push_back({allocate_pinned({slot_bytes}),
                         expected_[static_cast<std::size_t>(ranks_.rank())][static_cast<std::size_t>(slot)],
                         "slot " + std::to_string(slot) + " before step " + std::to_string(step_)});
    copy_bytes(readings_.back().host.data(), addresses_[static_cast<std::size_t>(slot)], {slot_bytes}, queue(stream));
    note_on_stream(slot, false, stream);
  }

  /// Submits one operation, repeats an earlier one, or submits several as a group, each of which has its own slots.
  void communicate() {
    const std::size_t group = common_() % groups_.size();
    std::vector<DrawnOperation> drawn;
    std::vector<std::size_t> numbers;
    if (common_() % 4 == 0 && !history_.empty()) {
      numbers = {common_() % history_.size()};
    } else {
      std::vector<int> free(slots);
      std::iota(free.begin(), free.end(), 0);
      std::shuffle(free.begin(), free.end(), common_);
      const std::size_t together = common_() % 4 == 0 ? 1 + common_() % 3 : 1;
      for (std::size_t k = 0; k < together; ++k) {
        history_.emplace_back(group, draw_operation(common_, groups_[group], free[2 * k], free[2 * k + 1]));
        numbers.push_back(history_.size() - 1);
      }
    }
    for (const std::size_t number : numbers) {
      if (step_ >= traced_.size()) traced_.resize(step_ + 1);
      traced_[step_] += history_[number].second.describe() + "; ";
    }
    submit(numbers);
    for (const std::size_t number : numbers) history_[number].second.apply(expected_);
  }

  void submit(const std::vector<std::size_t>& numbers) {
    const std::size_t group = history_[numbers.front()].first;
    Communicator* const c = communicators_[group].get();
    if (c == nullptr) return;
    std::vector<Collective> collectives;
    std::deque<std::vector<Count>> received;
    std::vector<std::size_t> mine;
    const auto come_after_other_communicators = [&](int stream) {
      if (!last_ || last_group_ == group) return;
      stream < 0 ? last_->wait() : last_->order_before(queue(stream));
    };
    for (const std::size_t number : numbers) {
      const DrawnOperation& d = history_[number].second;
      const int member = d.place_of(ranks_.rank());
      if (!d.takes_part(member)) continue;
      collectives.push_back(d.collective(member, addresses_, received.emplace_back()));
      const int stream = d.kind == CollectiveKind::barrier || own_() % 3 == 0 ? -1 : draw_stream();
      come_after_other_communicators(stream);
      if (stream >= 0) collectives.back().queue = queue(stream);
      const Region in = d.input_of(member);
      const Region out = d.output_of(member);
      if (in.slot >= 0) order(in.slot, false, stream);
      if (out.slot >= 0) order(out.slot, true, stream);
      mine.push_back(number);
    }
    if (mine.empty()) return;
    std::vector<std::shared_ptr<Submitted>> works;
    if (numbers.size() > 1) {
      for (Work& work : c->group(collectives)) works.push_back(std::make_shared<Submitted>(std::move(work)));
    } else {
      works.push_back(start(*c, mine.front(), collectives.front()));
    }
    last_ = works.back();
    last_group_ = group;
    for (std::size_t k = 0; k < mine.size(); ++k) {
      const DrawnOperation& d = history_[mine[k]].second;
      const int member = d.place_of(ranks_.rank());
      const Region in = d.input_of(member);
      const Region out = d.output_of(member);
      if (in.slot >= 0) note(in.slot, {.writes = false, .operation = works[k]});
      if (out.slot >= 0) note(out.slot, {.writes = true, .operation = works[k]});
      under_way_.push_back(works[k]);
    }
  }

  /// Starts an operation. On some ranks it is prepared, and later starts use the prepared operation.
  std::shared_ptr<Submitted> start(Communicator& c, std::size_t number, const Collective& collective) {
    if (!prepared_.contains(number) && own_() % 2 == 0) return std::make_shared<Submitted>(c.start(collective));
    if (!prepared_.contains(number)) prepared_.emplace(number, Kept{c.prepare(collective), nullptr});
    Kept& kept = prepared_.at(number);
    if (kept.started) kept.started->wait();
    kept.prepared.start(collective.queue);
    kept.started = std::make_shared<Submitted>(kept.prepared);
    return kept.started;
  }

  /// Does what a program may do between its calls.
  void rest() {
    switch (own_() % 6) {
      case 0: progress_.poll(); break;
      case 1:
        if (!under_way_.empty()) (void)under_way_[own_() % under_way_.size()]->test();
        break;
      case 2:
        if (!under_way_.empty()) under_way_[own_() % under_way_.size()]->wait();
        break;
      case 3: std::this_thread::yield(); break;
      default: break;
    }
  }

  void finish() {
    for (int slot = 0; slot < slots; ++slot) read(slot);
    std::shuffle(under_way_.begin(), under_way_.end(), own_);
    for (const auto& operation : under_way_) operation->wait();
    for (int stream = 0; stream < streams; ++stream) {
      Access end{.event = std::make_shared<Event>()};
      end.event->record(queue(stream));
      wait_on_host(end);
    }
    for (const Reading& reading : readings_) {
      const auto* read = static_cast<const unsigned char*>(reading.host.data());
      const auto [wrong, right] = std::mismatch(reading.expected.begin(), reading.expected.end(), read);
      if (wrong == reading.expected.end()) continue;
      std::string all;
      for (const std::string& text : traced_) all += "\n  " + text;
      throw std::runtime_error(reading.what + ": byte " + std::to_string(wrong - reading.expected.begin()) + " is " +
                               std::to_string(*right) + ", not " + std::to_string(*wrong) + all);
    }
    prepared_.clear();
    for (const auto& c : communicators_)
      if (c) c->close();
  }

  struct Kept {
    Prepared prepared;
    std::shared_ptr<Submitted> started;
  };

  Ranks& ranks_;
  std::mt19937_64 common_;  // draws the same numbers on every rank
  std::mt19937_64 own_;
  Progress progress_{{.spins_before_yield = 0}};
  std::vector<std::vector<int>> groups_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Allocation> memory_;
  std::vector<void*> addresses_;
  std::vector<Stream> streams_;
  std::vector<Contents> expected_;  // by rank
  std::vector<std::vector<Access>> accesses_;
  std::vector<std::pair<std::size_t, DrawnOperation>> history_;  // with its group
  std::map<std::size_t, Kept> prepared_;                         // by number
  std::vector<std::shared_ptr<Submitted>> under_way_;
  std::shared_ptr<Submitted> last_;
  std::size_t last_group_ = 0;
  std::vector<Allocation> sources_;
  std::vector<Reading> readings_;
  std::vector<std::string> traced_;  // by step
  std::size_t step_ = 0;
};

}  // namespace

void run_succession(Ranks& ranks, std::uint64_t seed, backends::NcclAlgorithm algorithm) {
  auto program = std::make_unique<Program>(ranks, seed, algorithm);
  try {
    program->run();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "seed " << seed << ", rank " << ranks.rank() << ": " << error.what();
    program->abandon();
    static_cast<void>(program.release());  // GPUs may still be using its memory
  }
  ranks.meet();
}

}  // namespace lockstep::on_emulated_gpus
