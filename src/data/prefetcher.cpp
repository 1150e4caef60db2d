// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/prefetcher.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "data/check.hpp"
#include "data/fingerprint.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::data {

namespace {

/// The memory of one batch, with its state.
struct Prefetched {
  std::vector<Allocation> memory;  ///< memory of each tensor, for the largest number of samples
  std::vector<Buffer> tensors;     ///< the part of the memory that the batch uses
  std::vector<Buffer> slots;       ///< the part of each tensor that one sample uses
  Batch batch;
  bool ready = false;        ///< prepared, or failed
  std::exception_ptr error;  ///< the reason of a failure
};

void check_arguments(const Dataset* dataset, DType real, const DistributedSampler& sampler,
                     const PrefetchOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (dataset == nullptr) refuse("batches are made of a data set, and none was given");
  if (real != DType::float32 && real != DType::float64)
    refuse("batches are made in float32 or float64, not in " + std::string(name(real)));
  if (options.workers < 0) refuse("the number of workers must not be negative, not " + std::to_string(options.workers));
  if (options.held < 1) refuse("at least 1 batch has to stay valid, not " + std::to_string(options.held));
  check_tensors(dataset->name(), dataset->tensors());
  if (const std::int64_t dealt = sampler.options().samples.value; dealt > dataset->size())
    refuse("the sampler deals " + std::to_string(dealt) + " samples, but the data set \"" + dataset->name() +
           "\" has only " + std::to_string(dataset->size()));
}

/// Returns the tensors of a batch. @param bytes  names of those that are uint8
std::vector<TensorSpec> specs_of(const Dataset& dataset, const std::vector<std::string>& bytes) {
  std::vector<TensorSpec> specs = tensors_with_bytes(dataset);
  std::size_t left = bytes.size();
  for (TensorSpec& spec : specs) {
    if (std::find(bytes.begin(), bytes.end(), spec.name) == bytes.end()) {
      spec.bytes.reset();
    } else if (spec.bytes) {
      --left;
    }
  }
  if (left == 0) return specs;
  std::string names;
  for (const std::string& name : bytes) names += (names.empty() ? "\"" : "\", \"") + name;
  throw Error(ErrorCode::invalid_argument,
              "the data set \"" + dataset.name() + "\" does not have bytes of all of its tensors " + names + "\"");
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

/// The batch of step s is in entry s modulo the size of the ring. Workers take steps in order while the entry of the
/// next step is free; the trainer takes the batches in order. One mutex guards everything except the memory of a batch
/// that is being prepared.
class Prefetcher::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler, const PrefetchOptions& options)
      : dataset_(std::move(dataset)),
        real_(real),
        sampler_(std::move(sampler)),
        observer_(options.observer),
        held_(options.held),
        allocate_(options.allocate) {
    const int workers = options.workers;
    check_arguments(dataset_.get(), real, sampler_, options);
    specs_ = specs_of(*dataset_, options.bytes);
    // There is one entry for each batch in use, one for the next, and one for each batch that is being prepared.
    entries_.resize(static_cast<std::size_t>(workers == 0 ? held_ : held_ + 1 + workers));
    allocate();
    try {
      for (int i = 0; i < workers; ++i)
        threads_.emplace_back([this, track = "data " + std::to_string(i)] { work(track); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start_epoch(std::int64_t epoch, std::int64_t first_step) {
    if (first_step < 0 || first_step > sampler_.steps())
      throw Error(ErrorCode::invalid_argument, "an epoch of " + std::to_string(sampler_.steps()) +
                                                   " steps cannot begin at step " + std::to_string(first_step));
    begin_at(first_step, [&] {
      sampler_.start_epoch(epoch);
      end_ = sampler_.steps();
    });
  }

  void move_shards(const LeafShares& shards) {
    begin_at(taken_, [&] {
      sampler_.move_shards(shards);
      allocate();
    });
  }

  const Batch* next() {
    const auto begin = Clock::now();
    const Batch* batch = threads_.empty() ? make_here() : take();
    const auto end = Clock::now();
    waited_seconds_ += seconds(end - begin);
    if (observer_ != nullptr && batch != nullptr) observer_->span({"compute", "wait for data", begin, end, {}});
    return batch;
  }

  [[nodiscard]] const DistributedSampler& sampler() const { return sampler_; }
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

 private:
  /// Makes a change while no worker prepares a batch, and drops all batches. The next one is that of `step`.
  template <typename Change>
  void begin_at(std::int64_t step, const Change& change) {
    {
      std::unique_lock lock(mutex_);
      const std::int64_t end = std::exchange(end_, 0);  // no worker starts another step
      changed_.wait(lock, [this] { return busy_ == 0; });
      for (Prefetched& entry : entries_) entry.ready = false;
      drawn_ = taken_ = in_use_ = step;
      end_ = end;
      change();
    }
    changed_.notify_all();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Allocates memory for the largest batch in each entry, unless it is there.
  void allocate() {
    const std::int64_t samples = sampler_.largest_share().value;
    for (Prefetched& entry : entries_) {
      entry.memory.resize(specs_.size());
      entry.tensors.resize(specs_.size());
      entry.slots.resize(specs_.size());
      for (std::size_t i = 0; i < specs_.size(); ++i) {
        const Bytes bytes{samples * specs_[i].elements() * size_of(specs_[i].dtype(real_))};
        if (bytes > entry.memory[i].bytes()) entry.memory[i] = allocate_(bytes);
      }
    }
  }

  Prefetched& entry_of(std::int64_t step) { return entries_[static_cast<std::size_t>(step) % entries_.size()]; }

  /// Fills the entry of a step with the batch, or with the exception that its preparation threw.
  void make(std::int64_t step, Prefetched& entry, std::string_view track) noexcept {
    const auto begin = Clock::now();
    entry.error = nullptr;
    try {
      const auto indices = sampler_.indices(step);
      const Count count{static_cast<std::int64_t>(indices.size())};
      Bytes bytes;
      for (std::size_t i = 0; i < specs_.size(); ++i) {
        const Buffer memory = entry.memory[i].as(specs_[i].dtype(real_));
        entry.tensors[i] = slice(memory, {0}, {count.value * specs_[i].elements()});
        bytes.value += entry.tensors[i].bytes().value;
      }
      const SampleKey key{.seed = sampler_.options().seed, .epoch = sampler_.epoch()};
      read_batch(*dataset_, key, indices, entry.tensors, entry.slots);
      entry.batch = {.step = step,
                     .samples = count,
                     .step_samples = sampler_.step_samples(step),
                     .first = sampler_.first(step),
                     .ids = indices,
                     .tensors = entry.tensors};
      if (observer_ != nullptr) observer_->span({track, "make batch", begin, Clock::now(), bytes});
    } catch (...) {
      entry.error = std::current_exception();
    }
  }

  const Batch* make_here() {
    if (taken_ == end_) return nullptr;
    Prefetched& entry = entry_of(taken_);
    make(taken_, entry, "data");
    if (entry.error) std::rethrow_exception(entry.error);
    ++taken_;
    return &entry.batch;
  }

  const Batch* take() {
    std::unique_lock lock(mutex_);
    for (; in_use_ <= taken_ - held_; ++in_use_) {  // the batches before are no longer used
      entry_of(in_use_).ready = false;
      changed_.notify_all();
    }
    if (taken_ == end_) return nullptr;
    Prefetched& entry = entry_of(taken_);
    changed_.wait(lock, [&entry] { return entry.ready; });
    if (entry.error) std::rethrow_exception(entry.error);
    ++taken_;
    return &entry.batch;
  }

  void work(std::string_view track) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || can_draw(); });
      if (stopping_) return;
      const std::int64_t step = drawn_++;
      Prefetched& entry = entry_of(step);
      ++busy_;
      lock.unlock();
      make(step, entry, track);
      lock.lock();
      --busy_;
      entry.ready = true;
      changed_.notify_all();
    }
  }

  [[nodiscard]] bool can_draw() const {
    return drawn_ < end_ && drawn_ < in_use_ + static_cast<std::int64_t>(entries_.size());
  }

  std::shared_ptr<const Dataset> dataset_;
  std::vector<TensorSpec> specs_;
  DType real_;
  DistributedSampler sampler_;
  Observer* observer_;
  int held_;
  std::function<Allocation(Bytes)> allocate_;
  std::vector<Prefetched> entries_;
  double waited_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  int busy_ = 0;             ///< number of batches that are being prepared
  std::int64_t end_ = 0;     ///< steps of the epoch
  std::int64_t drawn_ = 0;   ///< step that a worker prepares next
  std::int64_t taken_ = 0;   ///< step that next() returns next
  std::int64_t in_use_ = 0;  ///< oldest step whose entry is not free
  std::vector<std::thread> threads_;
};

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, DType real, DistributedSampler sampler,
                       const PrefetchOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), real, std::move(sampler), options)) {}
Prefetcher::~Prefetcher() = default;

void Prefetcher::start_epoch(std::int64_t epoch, std::int64_t first_step) { impl_->start_epoch(epoch, first_step); }
void Prefetcher::move_shards(const LeafShares& shards) { impl_->move_shards(shards); }
const Batch* Prefetcher::next() { return impl_->next(); }
const DistributedSampler& Prefetcher::sampler() const { return impl_->sampler(); }
double Prefetcher::waited_seconds() const { return impl_->waited_seconds(); }

}  // namespace lockstep::data
