// SPDX-License-Identifier: Apache-2.0
// This program is train with a data set that fails on one rank, for mpi-scripts/check/faults.py. The variable FAULT
// says how:
//   FAULT=KIND:PHASE:RANK    KIND exit, throw, lock, or the number of a signal; PHASE start, training, save or
//   evaluation FAULT_CHECKPOINTS=DIR    where the phase save sees a checkpoint that is being written
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/train.hpp"

namespace {

using lockstep::data::Dataset;
using lockstep::data::SampleKey;

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// Waits for a lock that another thread never gives back.
void wait_for_a_lock() {
  static std::mutex mutex;
  static const auto* const holder = new std::thread([] {
    mutex.lock();
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  });
  (void)holder;
  while (mutex.try_lock()) {
    mutex.unlock();
    std::this_thread::yield();
  }
  mutex.lock();
}

std::atomic<bool> exits = false;  // no thread reads any more

/// Exits when the thread that computes has used up its batches and waits for data, which no thread reads any more. An
/// exit destroys oneDNN's kernels, so a thread that runs one would end the process by SIGSEGV instead.
[[noreturn]] void exit_between_steps() {
  exits = true;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  std::exit(0);
}

void fail_in(const std::string& phase) {
  static const std::string fault = variable("FAULT");
  static const std::string rank = variable("OMPI_COMM_WORLD_RANK") + variable("PMI_RANK");
  const std::string kind = fault.substr(0, fault.find(':'));
  static std::atomic<bool> has_failed = false;
  if (fault != kind + ':' + phase + ':' + rank || has_failed.exchange(true)) return;
  if (kind == "exit") exit_between_steps();
  if (kind == "throw") throw std::runtime_error("the sensor gives no images");
  if (kind == "lock") {
    wait_for_a_lock();
  } else {
    kill(getpid(), std::stoi(kind));
  }
}

/// Returns whether a checkpoint is being written; its name begins with a dot until it is complete.
bool is_saving() {
  static const std::string folder = variable("FAULT_CHECKPOINTS");
  std::error_code gone;
  for (std::filesystem::directory_iterator entry(folder, gone), end; !gone && entry != end; entry.increment(gone))
    if (entry->path().filename().string().starts_with('.')) return true;
  return false;
}

/// Another data set, whose reading fails late in the data, so that a few steps have been made.
class Faulty final : public Dataset {
 public:
  Faulty(std::shared_ptr<const Dataset> inner, std::string phase, std::int64_t size)
      : inner_(std::move(inner)), phase_(std::move(phase)), size_(size) {}
  [[nodiscard]] std::string name() const override { return "faulty"; }
  [[nodiscard]] std::vector<lockstep::TensorSpec> tensors() const override { return inner_->tensors(); }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t classes() const override { return inner_->classes(); }
  void read(const SampleKey& key, std::span<const lockstep::Buffer> tensors) const override {
    while (exits) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (key.seed == seed_of_run && ++reads_ >= 100) {
      if (reads_ == 100) fail_in(phase_);
      if (fails_in_a_save && is_saving()) fail_in("save");
    }
    inner_->read(key, tensors);
  }
  static constexpr std::uint64_t seed_of_run = 7;  // the fingerprint is read with another one
  inline static const bool fails_in_a_save = variable("FAULT").find(":save:") != std::string::npos;

 private:
  std::shared_ptr<const Dataset> inner_;
  std::string phase_;
  std::int64_t size_;
  mutable std::atomic<int> reads_ = 0;
};

lockstep::data::DatasetPair load(const lockstep::data::DatasetOptions& options) {
  fail_in("start");
  const auto pair = lockstep::Registry().datasets.load("synthetic-digits", options);
  // Evaluations come soon, if they are what fails.
  const std::int64_t size = variable("FAULT").find(":evaluation:") == std::string::npos ? pair.train->size() : 64;
  return {std::make_shared<Faulty>(pair.train, "training", size),
          std::make_shared<Faulty>(pair.test, "evaluation", pair.test->size())};
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Registry registry;
  registry.datasets.add({.name = "faulty", .load = load, .directory = lockstep::data::Directory::none});
  registry.dataset = "faulty";
  return lockstep::train_main(argc, argv, registry);
}
