// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/data_parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "ddp/finite_check.hpp"
#include "ddp/reducer.hpp"
#include "ddp/synchronize.hpp"
#include "ddp/tally.hpp"
#include "ddp/tensors.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {
namespace {

/// Beyond 1 MiB an earlier start of communication gains nothing.
Bytes first_bucket(Bytes bucket) { return {std::min<std::int64_t>((bucket.value + 3) / 4, 1 << 20)}; }

}  // namespace

struct DataParallel::State {
  State(ProcessGroup& group_in, ddp::Tensors tensors_in, const DataParallelOptions& options_in)
      : options(options_in),
        tensors(std::move(tensors_in)),
        tally(tensors.layout().tensors().size()),
        finite(tensors.layout().tensors().size()),
        is_ready(tensors.layout().tensors().size(), 0) {
    join(group_in);
  }

  void join(ProcessGroup& other) {
    group = &other;
    if (options.check_finite && tensors.flat_gradients().kind == MemoryKind::device) {
      throw Error(ErrorCode::unsupported, "gradients in memory of a GPU are not checked: leave check_finite false",
                  {.rank = group->rank().value, .host = group->host()});
    }
    if (options.share_update) check_sharing();
    if (options.shards != 0) check_sharding();
    (void)group->control();  // made here, where all ranks are together
    reducer.emplace(group->communicator(), tensors.layout(), tensors.flat_gradients(),
                    ddp::BucketOptions{.size = options.bucket,
                                       .first = first_bucket(options.bucket),
                                       .parts = options.share_update ? group->size() : 0},
                    Leaves{options.shards, tensors.layout().count()}, options.observer);
  }

  [[nodiscard]] Error refusal(const std::string& why, const std::string& label = {}) const {
    return {ErrorCode::invalid_argument, why, {.label = label, .rank = group->rank().value, .host = group->host()}};
  }
  void check_sharing() const {
    const bool on_gpu = tensors.flat_gradients().kind == MemoryKind::device;
    if (!on_gpu && !tensors.are_the_programs()) return;
    throw Error(ErrorCode::unsupported,
                std::string(on_gpu ? "gradients in memory of a GPU" : "gradients of the program's own tensors") +
                    ": their update is not shared, leave share_update false" +
                    (on_gpu ? "" : ", or let DataParallel have memory of its own"),
                {.rank = group->rank().value, .host = group->host()});
  }
  /// How many sums of gradients this rank brings.
  [[nodiscard]] int sums() const {
    if (options.shards == 0) return 1;
    return count_tree_nodes(options.shards, share_of(options.shards, group->rank().value, group->size()));
  }
  void check_sharding() const {
    if (options.shards < group->size()) {
      throw refusal(std::to_string(options.shards) + " shards for " + std::to_string(group->size()) +
                    " ranks: each needs one at least, so use no more ranks than shards");
    }
    if (options.places < sums()) {
      throw refusal(std::to_string(options.places) + " places for gradients, of which this rank brings " +
                    std::to_string(sums()) + " sums");
    }
    const std::string_view why = tensors.are_the_programs() ? "let DataParallel have memory of its own"
                                 : tensors.flat_gradients().kind == MemoryKind::device ? "not in memory of a GPU"
                                 : !group->communicator().capabilities().no_leaves.empty()
                                     ? group->communicator().capabilities().no_leaves
                                     : "";
    if (why.empty()) return;
    throw Error(ErrorCode::unsupported, "gradients of shards are not added up here: " + std::string(why),
                {.rank = group->rank().value, .host = group->host()});
  }
  void check_synchronized() const {
    if (synchronized) return;
    throw refusal("the ranks' values may differ: after they have been written, synchronize() is called once");
  }
  [[nodiscard]] bool within_a_step() const {
    return std::find(is_ready.begin(), is_ready.end(), char{1}) != is_ready.end();
  }

  void check_complete() const;
  void make_ready(int parameter);
  void end_step();
  void send(int parameter);
  void send_the_rest();
  DataParallel::Step take(std::span<double> sums, const Finding& finding);

  ProcessGroup* group = nullptr;
  DataParallelOptions options;
  ddp::Tensors tensors;
  ddp::Tally tally;
  ddp::FiniteCheck finite;
  std::vector<char> is_ready;  // in this backward, by parameter
  std::optional<ddp::Reducer> reducer;
  Queue queue = Queue::host();  // of this step's gradients
  int scopes = 0;               // that send nothing
  bool synchronized = false;
  double exposed_before = 0;  // with other groups
};

void DataParallel::State::check_complete() const {
  if (scopes > 0) throw refusal("finish_on() sends gradients, which no_sync() is to keep back: call finish()");
  if (options.check_finite)
    throw refusal("finish_on() checks no gradients: call finish(), or leave check_finite false");
  const auto missing = std::find(is_ready.begin(), is_ready.end(), char{0});
  if (missing == is_ready.end()) return;
  const std::string& name = tensors.layout().at(static_cast<int>(missing - is_ready.begin())).name;
  throw refusal("the gradient of '" + name + "' is not ready: finish_on() adds no zeros, finish() does", name);
}

void DataParallel::State::end_step() {
  std::fill(is_ready.begin(), is_ready.end(), char{0});
  queue = Queue::host();
}

void DataParallel::State::make_ready(int parameter) {
  if (parameter < 0 || static_cast<std::size_t>(parameter) >= is_ready.size()) {
    throw refusal("there is no parameter " + std::to_string(parameter) + ": there are " +
                  std::to_string(is_ready.size()));
  }
  char& was_ready = is_ready[static_cast<std::size_t>(parameter)];
  const std::string& name = tensors.layout().at(parameter).name;
  if (was_ready != 0) throw refusal("the gradient of '" + name + "' became ready twice in one step", name);
  was_ready = 1;
  tally.use(parameter);
  if (scopes == 0) send(parameter);
}

void DataParallel::State::send(int parameter) {
  if (options.check_finite && !queue.is_host()) {
    throw refusal("gradients that are still being written by a stream are not checked: leave check_finite false");
  }
  for (int sum = 0; options.check_finite && sum < sums(); ++sum)
    finite.look(parameter, tensors.gradient(parameter, sum));
  tensors.collect(parameter, queue);
  reducer->ready(parameter, queue);
}

/// What was not made ready in this backward, but in one before it that sent nothing, has been added up; all else is
/// nothing. From the last to the first, so that buckets leave one by one.
void DataParallel::State::send_the_rest() {
  for (int parameter = static_cast<int>(is_ready.size()) - 1; parameter >= 0; --parameter) {
    if (is_ready[static_cast<std::size_t>(parameter)] != 0) continue;
    if (tally.is_used(parameter)) {
      send(parameter);
    } else {
      tensors.collect_zeros(parameter, sums(), queue);
      reducer->ready(parameter, queue);
    }
  }
}

DataParallel::Step DataParallel::State::take(std::span<double> sums, const Finding& finding) {
  DataParallel::Step step = tally.take(sums);
  step.not_finite = finite.gather(*group, group->control(), tally.not_finite());
  const bool is_to_look = options.check_finite && step.not_finite.empty();
  if (is_to_look) finite.look_at_sums(tensors.layout(), tensors.flat_gradients(), reducer->summed());
  if (finding.find) finding.find();
  if (reducer->scatters() && (is_to_look || !finding.numbers.empty()))
    finite.exchange(group->control(), finding.numbers);
  if (is_to_look) step.not_finite = finite.of_sums();
  return step;
}

DataParallel::DataParallel(ProcessGroup& group, Layout layout, DType dtype, const DataParallelOptions& options)
    : state_(std::make_unique<State>(group, ddp::Tensors(std::move(layout), dtype, group, std::max(1, options.places)),
                                     options)) {}

DataParallel::DataParallel(ProcessGroup& group, std::vector<Parameter> parameters, const DataParallelOptions& options)
    : state_(std::make_unique<State>(group, ddp::Tensors(std::move(parameters), group), options)) {
  synchronize();
}

DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&&) noexcept = default;
DataParallel::~DataParallel() = default;

const Layout& DataParallel::layout() const { return state_->tensors.layout(); }
Buffer DataParallel::value(int parameter) const { return state_->tensors.value(parameter); }
Buffer DataParallel::gradient(int parameter) const { return state_->tensors.gradient(parameter); }
Buffer DataParallel::values() const { return state_->tensors.values(); }
Buffer DataParallel::gradients() const {
  (void)values();  // refuses the program's own
  return state_->tensors.flat_gradients();
}

Buffer DataParallel::gradient_places() const {
  (void)values();  // refuses the program's own
  return state_->tensors.gradient_places();
}

void DataParallel::synchronize() {
  ddp::synchronize(*state_->group, state_->tensors.value_buffers(), state_->options.initial);
  state_->synchronized = true;
}

void DataParallel::ready(int parameter, Queue queue) {
  state_->check_synchronized();
  state_->queue = queue;
  state_->make_ready(parameter);
}

void DataParallel::progress() {
  // Each round may let a message that has come already be taken by the next.
  while (state_->group->progress().poll()) {
  }
}

DataParallel::Step DataParallel::finish(double weight, std::span<double> sums, const Finding& finding) {
  State& state = *state_;
  state.check_synchronized();
  if (!(weight >= 0)) {
    throw state.refusal("the weight " + std::to_string(weight) + ": it must be a number that is not negative");
  }
  state.tally.add(weight, sums);
  if (state.scopes > 0) {
    std::fill(state.is_ready.begin(), state.is_ready.end(), char{0});
    return {.weight = state.tally.weight()};
  }
  state.send_the_rest();
  Work tallying = state.tally.send(state.group->control(), state.finite.found());
  state.reducer->finish();
  tallying.wait();
  state.tensors.distribute();
  state.end_step();
  return state.take(sums, finding);
}

void DataParallel::finish_on(Queue queue) {
  State& state = *state_;
  state.check_synchronized();
  state.check_complete();
  state.reducer->then(queue);
  state.tensors.distribute(queue);
  state.tally.begin_anew();
  state.end_step();
}

const std::vector<LayoutPart>& DataParallel::owned() const { return state_->reducer->owned(); }
const std::vector<LayoutPart>& DataParallel::summed() const { return state_->reducer->summed(); }

void DataParallel::gather(const Buffer& flat) {
  State& state = *state_;
  if (state.within_a_step()) throw state.refusal("parts are gathered between steps: call finish() first");
  if (flat.count != layout().count()) {
    throw state.refusal("a buffer of " + std::to_string(flat.count.value) + " elements, where the layout has " +
                        std::to_string(layout().count().value));
  }
  if (state.options.share_update) state.reducer->gather(flat);
}

DataParallel::NoSync DataParallel::no_sync() { return NoSync(state_->scopes); }

void DataParallel::rebind(ProcessGroup& group) {
  if (state_->within_a_step()) throw state_->refusal("a group is changed between steps: call finish() first");
  state_->reducer->settle();
  state_->exposed_before = exposed_seconds();
  state_->tensors.move_to(group);
  state_->join(group);
}

std::vector<Bytes> DataParallel::bucket_sizes() const {
  std::vector<Bytes> sizes;
  const std::int64_t element = size_of(state_->tensors.flat_gradients().dtype);
  for (const ddp::Bucket& bucket : state_->reducer->buckets()) sizes.push_back({bucket.count.value * element});
  return sizes;
}

double DataParallel::exposed_seconds() const { return state_->exposed_before + state_->reducer->exposed_seconds(); }

}  // namespace lockstep
