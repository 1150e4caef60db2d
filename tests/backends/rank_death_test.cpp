// SPDX-License-Identifier: Apache-2.0
// Tests a job one of whose ranks is killed. Ranks that wait for it in shared memory name it, and no process or memory
// remains.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/background_job.hpp"
#include "support/run_program.hpp"
#include "support/verdict.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing_support::BackgroundJob;
using testing_support::becomes_true;
using testing_support::number_from;
using testing_support::processes;

constexpr int ranks = 3;
constexpr int deadline_seconds = 20;

class RankDeath : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  static std::string command(const std::string& mpiexec_flags, const std::string& arguments) {
    return std::string(LOCKSTEP_MPIEXEC) + mpiexec_flags + " -n " + std::to_string(ranks) + ' ' +
           LOCKSTEP_MORTAL_RANKS + ' ' + arguments;
  }
  static std::string command_without_mpi(const std::string& arguments) {
    return std::string(LOCKSTEP_WITHOUT_MPI) + ' ' + std::to_string(ranks) + ' ' + LOCKSTEP_MORTAL_RANKS + ' ' +
           arguments;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lockstep-rank-death-" + std::to_string(getpid()));
};

struct Note {
  std::int64_t nanoseconds = 0;
  std::string words;
};
Note read(const std::filesystem::path& path) {
  Note note;
  std::ifstream file(path);
  file >> note.nanoseconds >> std::ws;
  std::getline(file, note.words);
  return note;
}

struct Case {
  const char* manner;
  const char* method;
  int victim = ranks - 1;
  int signal = SIGKILL;  // 0: it ends with exit code 0
};

class RankDeathIn : public RankDeath, public testing::WithParamInterface<Case> {
 protected:
  [[nodiscard]] std::string arguments() const {
    const Case& c = GetParam();
    return "await " + folder().string() + ' ' + c.manner + ' ' + std::to_string(deadline_seconds) + ' ' + c.method +
           ' ' + std::to_string(c.victim) + ' ' + std::to_string(c.signal);
  }
  /// Expects that the survivors of a job have been told of the death in time. @return the exit code of the launcher
  [[nodiscard]] int expect_told(const std::string& command_line) const;
};

TEST_P(RankDeathIn, IsToldByNameToWhoeverWaits) {
  const std::string flag = testing_support::recovery_flag(LOCKSTEP_MPIEXEC);
  if (flag.empty()) LOCKSTEP_SKIP(mpi) << LOCKSTEP_MPIEXEC << " lets no rank outlive another";
  static_cast<void>(expect_told(command(flag, arguments())));  // launchers differ in what they return
}

TEST_P(RankDeathIn, IsToldByNameWithoutMpi) {
  const int code = expect_told(command_without_mpi(arguments()));
  EXPECT_EQ(code, GetParam().signal == 0 ? 0 : 128 + GetParam().signal) << "as the process itself ends";
}

int RankDeathIn::expect_told(const std::string& command_line) const {
  const auto job = testing_support::run_program(command_line + " 2>&1");
  const Note death = read(folder() / "death");
  EXPECT_GT(death.nanoseconds, 0) << job.output;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == GetParam().victim) continue;
    const Note note = read(folder() / std::to_string(rank));
    EXPECT_GT(note.nanoseconds, 0) << "rank " << rank << " wrote nothing\n" << job.output;
    EXPECT_TRUE(note.words.starts_with("transport names")) << note.words;
    const double milliseconds = static_cast<double>(note.nanoseconds - death.nanoseconds) / 1e6;
    std::printf("rank %d knew after %.1f ms: %s\n", rank, milliseconds, note.words.c_str());
    EXPECT_LT(milliseconds, deadline_seconds * 1000 / 4) << "not much sooner than at the deadline";
  }
  return job.exit_code;
}

INSTANTIATE_TEST_SUITE_P(, RankDeathIn,
                         testing::Values(Case{"spin", "shared-memory"}, Case{"sleep", "shared-memory"},
                                         Case{"spin", "sockets"}, Case{"sleep", "sockets"}, Case{"spin", "nodes"},
                                         Case{"sleep", "nodes"},
                                         // Rank 0 serves the store without MPI.
                                         Case{"sleep", "shared-memory", 0}, Case{"spin", "nodes", 0},
                                         Case{"sleep", "nodes", 0, SIGSEGV}, Case{"sleep", "sockets", 1, 0}),
                         [](const auto& parameter) {
                           const Case& c = parameter.param;
                           std::string name = std::string(c.manner) + '_' + c.method;
                           if (c.victim != ranks - 1) name += "_rank" + std::to_string(c.victim);
                           if (c.signal != SIGKILL) name += "_signal" + std::to_string(c.signal);
                           std::erase(name, '-');
                           return name;
                         });

/// Returns the files in /dev/shm, except those of MPI libraries, which a killed rank leaves behind and which their
/// names identify. lockstep never has files there, not even briefly, because its memory is not in the file system.
std::set<std::string> named_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    const auto is_of = [&](const char* library) { return name.find(library) != std::string::npos; };
    const bool open_mpi = is_of("vader_segment") || is_of("sm_segment") || is_of("pmix") || is_of("ompi");
    const bool mpich = is_of("mpich") || is_of("ucx_shm");
    if (!open_mpi && !mpich) names.insert(name);
  }
  return names;
}

/// Returns lockstep's memory that these processes have mapped, identified by device and inode. Memory that is not in
/// the file system lives as long as a process has it mapped or open.
std::set<std::string> mapped_memory(const std::vector<std::string>& process_ids) {
  std::set<std::string> found;
  for (const std::string& id : process_ids) {
    std::ifstream maps("/proc/" + id + "/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/memfd:lockstep") == std::string::npos) continue;
      std::istringstream words(line);
      std::string addresses, rights, offset, device, inode;
      words >> addresses >> rights >> offset >> device >> inode;
      found.insert(device + ' ' + inode);
    }
  }
  return found;
}

std::vector<std::string> all_processes() {
  std::vector<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) ids.push_back(name);
  }
  return ids;
}

/// Returns those of these memories that any process still has mapped or open.
std::set<std::string> still_held(const std::set<std::string>& memories) {
  std::set<std::string> held;
  const std::set<std::string> mapped = mapped_memory(all_processes());
  std::set_intersection(memories.begin(), memories.end(), mapped.begin(), mapped.end(),
                        std::inserter(held, held.end()));
  for (const std::string& id : all_processes()) {
    std::error_code gone;  // processes may end in the meantime
    for (std::filesystem::directory_iterator fd("/proc/" + id + "/fd", gone), end; !gone && fd != end;
         fd.increment(gone)) {
      struct stat status {};
      const auto target = std::filesystem::read_symlink(fd->path(), gone).string();
      if (target.find("/memfd:lockstep") == std::string::npos || stat(fd->path().c_str(), &status) != 0) continue;
      for (const std::string& memory : memories)
        if (memory.ends_with(' ' + std::to_string(status.st_ino))) held.insert(memory);
    }
  }
  return held;
}

class AnyRankDeath : public RankDeath, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(, AnyRankDeath, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "WithMpi" : "WithoutMpi"; });

/// The kill may hit any rank at any time: while MPI starts, while the ranks connect, while they reduce, while they
/// close.
TEST_P(AnyRankDeath, LeavesNothingBehind) {
  const unsigned kills = number_from("LOCKSTEP_KILLS", 10);
  const unsigned seed = number_from("LOCKSTEP_KILL_SEED", std::random_device()());
  std::printf("%u kills, LOCKSTEP_KILL_SEED=%u\n", kills, seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> after_ms(0, 1000);
  const std::string marker = folder().string();
  const std::set<std::string> before = named_memory();
  std::set<std::string> nameless;
  for (unsigned k = 0; k < kills; ++k) {
    const std::string repeat = "repeat " + marker;
    BackgroundJob job(GetParam() ? command("", repeat) : command_without_mpi(repeat), folder() / "output");
    const auto alive = [&] { return processes(LOCKSTEP_MORTAL_RANKS, marker); };
    ASSERT_TRUE(becomes_true(60s, [&] { return alive().size() == ranks || job.has_ended(); }));
    ASSERT_FALSE(job.has_ended()) << "kill " << k << " found none to kill";
    const int delay_ms = after_ms(random);
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    const auto memory = [&] {
      std::vector<std::string> ids;
      for (const pid_t rank : alive()) ids.push_back(std::to_string(rank));
      return mapped_memory(ids);
    };
    // The last kill waits until there is some memory, however long MPI takes to start.
    if (k + 1 == kills) becomes_true(60s, [&] { return !memory().empty() || job.has_ended(); });
    nameless.merge(memory());
    ASSERT_EQ(kill(alive().at(random() % ranks), SIGKILL), 0);
    EXPECT_TRUE(becomes_true(60s, [&] { return alive().empty(); }))
        << "kill " << k << ", " << delay_ms << " ms after the ranks had started\n"
        << std::ifstream(folder() / "output").rdbuf();
    for (const pid_t left : alive()) kill(left, SIGKILL);
    // After all ranks are gone, mpiexec of Open MPI 4.1 sometimes waits in PMIx_server_finalize for its own lock.
    if (!becomes_true(10s, [&] { return job.has_ended(); })) std::printf("after kill %u mpiexec itself hangs\n", k);
  }
  std::vector<std::string> made;
  const std::set<std::string> after = named_memory();
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(made));
  EXPECT_EQ(made, std::vector<std::string>{});
  EXPECT_FALSE(nameless.empty()) << "the ranks shared no memory, so nothing was looked for";
  EXPECT_EQ(still_held(nameless), std::set<std::string>{});
}

}  // namespace
}  // namespace lockstep
