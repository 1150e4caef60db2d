// SPDX-License-Identifier: Apache-2.0
// Each call of CUDA and NCCL fails in turn. The rank that made it throws an error that names it, the others throw a
// consequence, and no rank hangs. Ranks are threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/back_end.hpp"
#include "emulated_gpu/device/faults.hpp"
#include "emulated_gpu/lockstep/outcome.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"
#include "platform/gpu/gpu.hpp"
#include "support/background_job.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using backends::NcclAlgorithm;
using namespace std::chrono_literals;

constexpr int injected_ranks = 2;
constexpr double in_time = 6;  ///< unit: seconds; a rank that is not notified would take until the deadline

/// A rank's work with a GPU. It stays after a failure, because GPUs may still be using its memory.
class Job {
 public:
  void run(Ranks& all, NcclAlgorithm algorithm) {
    communicator_ = all.make(progress_, {.algorithm = algorithm, .deadline = 20s});
    memory_ = communicator_->allocate({1 << 12});
    registration_ = back_end_of(*communicator_).register_memory(memory_.as(DType::float32));
    more_ = allocate_device({1 << 12});
    stream_ = std::make_unique<Stream>();
    const Buffer a = memory_.as(DType::float32);
    const Buffer b = more_.as(DType::float32);
    communicator_->all_reduce(a, a, ReduceOp::sum).wait();
    copy_bytes(b.data, a.data, a.bytes(), stream_->queue());
    works_.push_back(communicator_->all_reduce(b, b, ReduceOp::sum, stream_->queue()));
    works_.back().order_before(stream_->queue());
    copy_bytes(a.data, b.data, a.bytes(), stream_->queue());
    works_.push_back(communicator_->broadcast(a, {0}, stream_->queue()));
    for (Work& work : communicator_->group(
             {{.kind = CollectiveKind::all_to_all, .in = a, .out = b}, {.kind = CollectiveKind::barrier}}))
      works_.push_back(std::move(work));
    for (Work& work : works_) work.wait();
    works_.clear();
    registration_.reset();
    communicator_->close();
  }
  void leave() { communicator_.reset(); }

 private:
  Progress progress_{{.spins_before_yield = 0}};
  std::unique_ptr<Communicator> communicator_;
  Allocation memory_;
  std::shared_ptr<const void> registration_;
  Allocation more_;
  std::unique_ptr<Stream> stream_;
  std::vector<Work> works_;
};

/// The outcome of a case that runs in its own process.
enum class Verdict { right, wrong, nothing_happened, hangs };

/// @param check  returns whether the fault occurred; what it finds wrong fails the test
Verdict in_a_process(const std::function<bool()>& check) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const bool was_met = check();
    std::fflush(nullptr);
    _exit(static_cast<int>(testing::Test::HasFailure() ? Verdict::wrong
                           : was_met                   ? Verdict::right
                                                       : Verdict::nothing_happened));
  }
  int status = 0;
  if (!testing_support::becomes_true(std::chrono::seconds(60),
                                     [&] { return waitpid(child, &status, WNOHANG) == child; })) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return Verdict::hangs;
  }
  if (WIFSIGNALED(status)) ADD_FAILURE() << "the process was ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) && WEXITSTATUS(status) <= 2 ? static_cast<Verdict>(WEXITSTATUS(status)) : Verdict::wrong;
}

/// Returns the numbers of the calls that fail.
std::vector<int> numbers() {
  if (number_of_process("LOCKSTEP_EVERY_FAULT", 0) == 0) return {1, 2, 5, 13};
  std::vector<int> all(60);
  std::iota(all.begin(), all.end(), 1);
  return all;
}

std::vector<Outcome> outcomes_with(const std::string& faults, NcclAlgorithm algorithm) {
  std::vector<Outcome> outcomes(injected_ranks);
  on_threads(injected_ranks, [&](Ranks& all) {
    auto job = std::make_unique<Job>();
    all.meet();
    if (all.rank() == 0) emulated_gpu::set_faults(faults);
    all.meet();
    Outcome& outcome = outcomes[static_cast<std::size_t>(all.rank())];
    outcome = outcome_of([&] { job->run(all, algorithm); });
    if (outcome.error) job->leave();
    all.meet();
    if (all.rank() == 0) emulated_gpu::set_faults("");
    all.meet();
    if (outcome.error) static_cast<void>(job.release());
  });
  return outcomes;
}

struct Fault {
  const char* call;
  const char* error;
  const char* named_as = call;  ///< the name of the call in the message
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.call; }

class InjectedFault : public testing::TestWithParam<std::tuple<NcclAlgorithm, Fault>> {};

/// @return whether the fault occurred
bool check_fault(const std::string& text, NcclAlgorithm algorithm, const Fault& fault) {
  const bool is_of_nccl = std::string_view(fault.call).starts_with("nccl");  // NCCL has its own text for each error
  int causes = 0;
  int failures = 0;
  for (const Outcome& outcome : outcomes_with(text, algorithm)) {
    EXPECT_LT(outcome.seconds, in_time) << outcome;
    failures += outcome.error ? 1 : 0;
    if (!outcome.error || outcome.is_consequence() || outcome.error->is_on_every_rank()) continue;
    ++causes;
    const std::string what = outcome.error->what();
    if (!is_of_nccl && what.find("from nccl") != std::string::npos) continue;  // the call is NCCL's own
    if (!is_of_nccl) {
      EXPECT_NE(what.find(fault.error), std::string::npos) << what;
    }
    EXPECT_NE(what.find(fault.named_as), std::string::npos) << what;
  }
  EXPECT_LE(causes, 1);
  return failures > 0;
}

TEST_P(InjectedFault, IsNamedByWhoMetItAndHeardOfByAll) {
  const auto& [algorithm, fault] = GetParam();
  int met = 0;
  for (const int number : numbers()) {
    const std::string text = std::string(fault.call) + ":" + std::to_string(number) + ":" + fault.error;
    SCOPED_TRACE(text);
    const Verdict verdict = in_a_process([&, &by = algorithm, &of = fault] { return check_fault(text, by, of); });
    if (verdict == Verdict::nothing_happened) break;  // there are not so many calls
    ASSERT_EQ(verdict, Verdict::right);
    ++met;
  }
  EXPECT_GT(met, 0) << "nobody made the call";
}

constexpr Fault faults[] = {{"cudaSetDevice", "cudaErrorDevicesUnavailable"},
                            {"cudaStreamCreateWithPriority", "cudaErrorMemoryAllocation"},
                            {"cudaEventCreateWithFlags", "cudaErrorMemoryAllocation"},
                            {"cudaEventRecord", "cudaErrorUnknown"},
                            {"cudaEventQuery", "cudaErrorIllegalAddress"},
                            {"cudaStreamWaitEvent", "cudaErrorUnknown"},
                            {"cudaStreamIsCapturing", "cudaErrorUnknown"},
                            {"cudaStreamSynchronize", "cudaErrorLaunchFailure"},
                            {"cudaMalloc", "cudaErrorMemoryAllocation"},
                            {"cudaMemsetAsync", "cudaErrorUnknown"},
                            {"cudaMemcpyAsync", "cudaErrorUnknown"},
                            {"ncclGetUniqueId", "ncclSystemError"},
                            {"ncclCommInitRankConfig", "ncclSystemError"},
                            {"ncclMemAlloc", "ncclUnhandledCudaError"},
                            {"ncclCommFinalize", "ncclSystemError"}};
constexpr Fault faults_of_tree_order[] = {
    {"ncclGroupStart", "ncclInvalidUsage"},
    {"ncclGroupEnd", "ncclSystemError"},
    {"ncclSend", "ncclUnhandledCudaError"},
    {"ncclRecv", "ncclUnhandledCudaError"},
    {"cudaLaunchKernel", "cudaErrorLaunchOutOfResources", "launch_canonical_fold"}};
constexpr Fault faults_of_nccls_own[] = {{"ncclAllReduce", "ncclUnhandledCudaError"},
                                         {"ncclBroadcast", "ncclUnhandledCudaError"},
                                         {"ncclCommWindowRegister", "ncclSystemError"}};

std::string name_of(const testing::TestParamInfo<std::tuple<NcclAlgorithm, Fault>>& parameter) {
  return std::get<1>(parameter.param).call;
}

INSTANTIATE_TEST_SUITE_P(, InjectedFault,
                         testing::Combine(testing::Values(NcclAlgorithm::automatic), testing::ValuesIn(faults)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OfNcclsOwn, InjectedFault,
                         testing::Combine(testing::Values(NcclAlgorithm::automatic),
                                          testing::ValuesIn(faults_of_nccls_own)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OfTreeOrder, InjectedFault,
                         testing::Combine(testing::Values(NcclAlgorithm::tree_order),
                                          testing::ValuesIn(faults_of_tree_order)),
                         name_of);

/// @return whether all ranks failed
bool check_end(const std::string& text, const std::function<void(const Outcome&)>& check_cause) {
  int causes = 0;
  int failures = 0;
  for (const Outcome& outcome : outcomes_with(text, NcclAlgorithm::automatic)) {
    EXPECT_TRUE(outcome.error) << outcome;
    EXPECT_LT(outcome.seconds, in_time) << outcome;
    failures += outcome.error ? 1 : 0;
    if (!outcome.error || outcome.is_consequence()) continue;
    ++causes;
    check_cause(outcome);
  }
  EXPECT_EQ(causes, 1);
  return failures == injected_ranks;
}

TEST(AsynchronousError, EndsAllRanksByOneCause) {
  for (const int number : {1, 3, 10}) {
    const std::string text = "async:" + std::to_string(number) + ":ncclRemoteError";
    const auto check_cause = [](const Outcome& outcome) {
      EXPECT_TRUE(outcome.failed_by(ErrorCode::transport)) << outcome;
    };
    ASSERT_EQ(in_a_process([&] { return check_end(text, check_cause); }), Verdict::right) << text;
  }
}

/// The device itself, or a kernel on it, has failed: no call succeeds afterwards.
class DeviceThatIsGone : public testing::TestWithParam<const char*> {};

TEST_P(DeviceThatIsGone, EndsAllRanks) {
  for (const int number : {1, 2, 4}) {
    const std::string text = "cudaEventQuery:" + std::to_string(number) + ":" + GetParam();
    const auto check_cause = [](const Outcome& outcome) {
      EXPECT_TRUE(outcome.failed_by(ErrorCode::device) || outcome.failed_by(ErrorCode::transport)) << outcome;
    };
    ASSERT_EQ(in_a_process([&] { return check_end(text, check_cause); }), Verdict::right) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceThatIsGone,
                         testing::Values("lost", "cudaErrorIllegalAddress", "cudaErrorHardwareStackError"),
                         [](const auto& by) { return std::string(by.param); });

}  // namespace
}  // namespace lockstep::on_emulated_gpus
