// SPDX-License-Identifier: Apache-2.0
// The program `train` with a compute library of one's own, which sleeps instead of computing. Data and exchanges are
// real, so it shows what a network does to a training, for more ranks than there are processors:
//   PACE_RECORD=pace.txt mpirun -np 1 paced_training --ops paced --batch 16 …   computes, and writes how long it took
//   PACE=pace.txt        mpirun -np 4 paced_training --ops paced --batch 64 …   sleeps as long for 16 samples a rank
// Weights stay as they are, and losses have no meaning. mpi-scripts/scaling.sh --pace uses this program.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <lockstep/ops/onednn.hpp>
#include <lockstep/train.hpp>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace ops = lockstep::ops;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// How long each piece of work takes, from a file or to be written into one.
class Pace {
 public:
  Pace() {
    if (const char* path = std::getenv("PACE_RECORD")) record_ = path;
    if (const char* path = std::getenv("PACE")) {
      std::ifstream file(path);
      std::string name;
      double seconds = 0;
      while (file >> seconds && std::getline(file >> std::ws, name)) known_[name] = Seconds(seconds);
      if (known_.empty()) throw std::runtime_error(std::string("PACE: there are no times in ") + path);
    }
    if (record_.empty() == known_.empty())
      throw std::runtime_error("--ops paced needs either PACE_RECORD=FILE or PACE=FILE in the environment");
  }
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;
  ~Pace() {
    if (record_.empty()) return;
    std::ofstream file(record_);
    for (auto& [name, times] : measured_) {
      std::ranges::sort(times);
      file << std::setprecision(9) << times[times.size() / 2].count() << ' ' << name << '\n';
    }
  }

  /// Computes and measures, or sleeps instead.
  /// @param name   says which work it is, the same in each run of a model with the same samples for each rank
  /// @param units  the time is proportional to their number
  template <typename Compute>
  void run(const std::string& name, std::int64_t units, const Compute& compute) {
    if (record_.empty()) return sleep(name, units);
    const auto begin = Clock::now();
    compute();
    measured_[name].push_back(Seconds(Clock::now() - begin) / static_cast<double>(std::max<std::int64_t>(units, 1)));
  }

 private:
  /// A sleep costs about 50 µs more than its length, so short ones are added up.
  void sleep(const std::string& name, std::int64_t units) {
    const auto found = known_.find(name);
    if (found == known_.end())
      throw std::runtime_error("PACE: it has no time of \"" + name + "\"; record with the same samples for each rank");
    busy_until_ = std::max(busy_until_, Clock::now()) +
                  std::chrono::duration_cast<Clock::duration>(found->second * static_cast<double>(units));
    if (busy_until_ - Clock::now() > std::chrono::microseconds(300)) std::this_thread::sleep_until(busy_until_);
  }

  std::string record_;
  std::map<std::string, std::vector<Seconds>> measured_;
  std::map<std::string, Seconds> known_;
  Clock::time_point busy_until_;
};

/// A kernel whose passes are paced.
class PacedKernel final : public ops::Kernel {
 public:
  PacedKernel(ops::KernelPtr inner, std::string name, std::shared_ptr<Pace> pace)
      : Kernel(inner->traits()), inner_(std::move(inner)), name_(std::move(name)), pace_(std::move(pace)) {}
  lockstep::Bytes workspace() const override { return inner_->workspace(); }
  std::string algorithm(ops::Pass pass) const override { return inner_->algorithm(pass); }
  const Kernel* inner() const { return inner_.get(); }

 private:
  void forward(const ops::Arguments& call) override { pass(ops::Pass::forward, call); }
  void infer(const ops::Arguments& call) override { pass(ops::Pass::infer, call); }
  void recompute(const ops::Arguments& call) override { pass(ops::Pass::recompute, call); }
  void backward(const ops::Arguments& call) override { pass(ops::Pass::backward, call); }
  void normalizer(const ops::Arguments& call) override { inner_->run(ops::Pass::normalizer, call); }
  void measure(const ops::Arguments& call) override { pass(ops::Pass::measure, call); }
  void measure_backward(const ops::Arguments& call) override { pass(ops::Pass::measure_backward, call); }
  void pass(ops::Pass which, const ops::Arguments& call) {
    const bool is_second =
        which == ops::Pass::backward && traits().separates_gradients && call.parameter_gradients.empty();
    const std::string name =
        "pass " + std::to_string(static_cast<int>(which)) + (is_second ? ", inputs, of " : " of ") + name_;
    pace_->run(name, 1, [&] { inner_->run(which, call); });
  }

  ops::KernelPtr inner_;
  std::string name_;
  std::shared_ptr<Pace> pace_;
};

/// oneDNN's kernels, paced. Kernels are numbered as they are made, which is the same order in each run of a model.
class PacedOps final : public ops::Ops {
 public:
  PacedOps(std::unique_ptr<Ops> inner, std::shared_ptr<Pace> pace) : inner_(std::move(inner)), pace_(std::move(pace)) {}

  std::string_view name() const override { return "paced"; }
  std::string_view library() const override { return inner_->library(); }
  bool supports(lockstep::DType dtype) const override { return inner_->supports(dtype); }
  ops::HalfKernels half_kernels(lockstep::DType half) const override { return inner_->half_kernels(half); }
  ops::Format stored_as(const ops::Format& format, lockstep::DType dtype) const override {
    return inner_->stored_as(format, dtype);
  }
  bool sums_in_convolutions() const override { return inner_->sums_in_convolutions(); }
  bool fuses_batch_norms() const override { return inner_->fuses_batch_norms(); }
  bool converts_bytes() const override { return inner_->converts_bytes(); }
  ops::KernelPtr reorder(const ops::Format& from, const ops::Format& to) override {
    return paced(inner_->reorder(from, to));
  }
  ops::KernelPtr convert_bytes(const lockstep::Normalization& numbers, const ops::Format& to) override {
    return paced(inner_->convert_bytes(numbers, to));
  }
  std::vector<ops::KernelAlgorithms> candidates(const ops::Operator& op, ops::Formats inputs) override {
    return inner_->candidates(op, inputs);
  }
  void use(const ops::KernelChoices& choices) override { inner_->use(choices); }
  const ops::KernelChoices& choices() const override { return inner_->choices(); }
  std::unique_ptr<Ops> another() const override { return std::make_unique<PacedOps>(inner_->another(), pace_); }
  lockstep::DType values(lockstep::DType reals) const override { return inner_->values(reals); }
  std::string arithmetic() const override { return inner_->arithmetic() + ", paced"; }
  ops::OnTeam on_team() const override { return inner_->on_team(); }
  ops::MachineLimits measure_limits(lockstep::DType dtype) override { return inner_->measure_limits(dtype); }

  void pack(std::span<const ops::PackedParameter> parameters, lockstep::Queue queue) override {
    std::vector<ops::PackedParameter> of_inner(parameters.begin(), parameters.end());
    for (ops::PackedParameter& one : of_inner) one.kernel = dynamic_cast<const PacedKernel&>(*one.kernel).inner();
    pace_->run("packing", 1, [&] { inner_->pack(of_inner, queue); });
  }
  void update(std::span<const ops::UpdateStep> steps) override {
    pace_->run("updating a number", numbers(steps), [&] { inner_->update(steps); });
  }
  void measure_update(std::span<const ops::UpdateStep> steps) override {
    pace_->run("measuring an update", numbers(steps), [&] { inner_->measure_update(steps); });
  }
  void average(const ops::AverageStep& step) override {
    pace_->run("averaging a number", step.count.value, [&] { inner_->average(step); });
  }
  void add_squares(const lockstep::ConstBuffer& values, double* sum, lockstep::Queue queue) override {
    pace_->run("squaring a number", values.count.value, [&] { inner_->add_squares(values, sum, queue); });
  }

 private:
  static std::int64_t numbers(std::span<const ops::UpdateStep> steps) {
    std::int64_t count = 0;
    for (const ops::UpdateStep& step : steps) count += step.count.value;
    return count;
  }

  ops::KernelPtr make_kernel(const ops::Operator& op, ops::Formats inputs, const ops::Signature& /*signature*/,
                             lockstep::DType reals) override {
    return paced(inner_->make(op, inputs, reals));
  }
  ops::KernelPtr make_half_kernel(const ops::Operator& op, ops::Formats inputs, const ops::Signature& /*signature*/,
                                  lockstep::DType half) override {
    return paced(inner_->make_half(op, inputs, half));
  }
  ops::KernelPtr paced(ops::KernelPtr inner) {
    if (inner == nullptr) return nullptr;
    const std::string name = "kernel " + std::to_string(kernels_++) + " for " +
                             std::to_string(inner->traits().output.shape.count()) + " numbers";
    return std::make_unique<PacedKernel>(std::move(inner), name, pace_);
  }

  std::unique_ptr<Ops> inner_;
  std::shared_ptr<Pace> pace_;
  int kernels_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  lockstep::Registry registry;
  registry.libraries.push_back({"paced", [](int threads, bool exact) {
                                  return std::make_unique<PacedOps>(ops::make_onednn_ops(threads, exact),
                                                                    std::make_shared<Pace>());
                                }});
  return lockstep::train_main(argc, argv, registry);
}
