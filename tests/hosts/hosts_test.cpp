// SPDX-License-Identifier: Apache-2.0
#include "hosts/hosts.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "apps/train/train_program.hpp"
#include "support/run_program.hpp"

namespace lockstep::testing_support {
namespace {

TEST_F(Hosts, TopoShowsTwoNodesWithTwoRanksEach) {
  const auto result = run_program(script(std::string("run --per-host 2 ") + LOCKSTEP_TOPO + " --json"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto cluster = nlohmann::json::parse(result.output);
  EXPECT_EQ(cluster.at("ranks"), 4);
  std::set<std::string> names;
  for (const auto& host : cluster.at("hosts")) {
    names.insert(host.at("name").get<std::string>());
    EXPECT_EQ(host.at("processes").size(), 2U);
  }
  EXPECT_EQ(names, (std::set<std::string>{"host1", "host2"}));
}

TEST_F(Hosts, AreAsManyAsAskedFor) {
  const auto result = run_program(script(std::string("run --hosts 3 --per-host 1 ") + LOCKSTEP_TOPO));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.find("3 ranks on 3 nodes\n"), 0U) << result.output;
}

TEST_F(Hosts, ShareNeitherProcessesNorMemory) {
  const auto result =
      run_program(script("run bash -c 'ssh host1 \"touch /dev/shm/mark; sleep 2\" & sleep 1;"
                         " ssh host2 \"hostname; ls /dev/shm; ls -d /proc/[0-9]* | wc -l\"; wait'"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(occurrences(result.output, "host2\n"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "mark"), 0) << result.output;
  EXPECT_LE(std::stoi(result.output.substr(6)), 6) << "two that keep the host, a shell, and those that count";
}

TEST_F(Hosts, HaveLinksOfTheRateAskedFor) {
  const auto result = run_program(script("run --rate 1gbit bash -c 'ssh host2 tc qdisc show dev eth0'"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(occurrences(result.output, "tbf"), 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "rate 1Gbit"), 1) << result.output;
}

/// Returns both losses in the table that train prints: the first two numbers after the epoch's.
std::string losses_of(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const auto at = result.output.find("\n    1  ");
  EXPECT_NE(at, std::string::npos) << result.output;
  return at == std::string::npos ? "" : result.output.substr(at, 27);
}

/// In float64 on the reference, the losses do not depend on where the ranks are.
TEST_F(Hosts, TrainAsOneHostDoes) {
  const train::SmallDigits digits;
  const std::string train =
      LOCKSTEP_TRAIN + digits.arguments() + " --precision float64 --batch 16 --epochs 1 --log-every 1 2>&1";
  const auto apart = run_program(script("run --per-host 2 " + train));
  EXPECT_EQ(occurrences(apart.output, "4 ranks on 2 nodes"), 1) << apart.output;
  const std::string losses = losses_of(apart);
  EXPECT_FALSE(losses.empty());
  EXPECT_EQ(losses, losses_of(run_program(std::string(LOCKSTEP_MPIEXEC) + " -n 2 " + train)));
}

TEST_F(Hosts, PassOnTheCommandsExitCode) {
  EXPECT_EQ(run_program(script("run bash -c 'exit 42'")).exit_code, 42);
  EXPECT_EQ(
      run_program(script(std::string("run --per-host 1 ") + LOCKSTEP_COMM_BENCH + " --algorithm rign 2>&1")).exit_code,
      2);
}

/// With `yes` it is an error if the ranks cannot connect. The sizes are below and above the limit of these connections.
TEST_F(Hosts, ConnectForSmallMessages) {
  const auto bench = [](const std::string& options) {
    return run_program(script(std::string("run --per-host 2 ") + LOCKSTEP_COMM_BENCH +
                              " --algorithm auto,recursive-doubling,ring --min 4 --max 65536 --factor 128"
                              " --repetitions 3 --warmup 1 " +
                              options + " 2>&1"));
  };
  for (const char* sockets : {"auto", "yes", "no"}) {
    const auto result = bench(std::string("--sockets ") + sockets);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "  ok\n"), 9) << result.output;
    EXPECT_EQ(occurrences(result.output, "go by MPI"), 0) << result.output;
  }
  EXPECT_EQ(bench("--sockets on").exit_code, 2);
}

TEST_F(Hosts, LeaveNothingBehindWhenKilled) {
  const std::string mark = "31536" + std::to_string(getpid());  // a number of seconds that no other process sleeps
  const pid_t child = fork();
  if (child == 0) {
    execl(LOCKSTEP_HOSTS_SCRIPT, LOCKSTEP_HOSTS_SCRIPT, "run", "bash", "-c", ("ssh host1 sleep " + mark).c_str(),
          nullptr);
    _exit(1);
  }
  const auto sleeping = [&] { return run_program("pgrep -f '^sleep " + mark + "'").exit_code == 0; };
  const auto becomes = [&](bool wanted) {
    for (int i = 0; i < 300 && sleeping() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return sleeping() == wanted;
  };
  EXPECT_TRUE(becomes(true));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(becomes(false));
}

/// comm-bench checks every result itself. It runs all algorithms of the operation.
class EveryOperation : public Hosts, public testing::WithParamInterface<std::pair<const char*, int>> {};

TEST_P(EveryOperation, IsRightOnTwoHosts) {
  const auto [op, per_host] = GetParam();
  const auto result =
      run_program(script("run --per-host " + std::to_string(per_host) + ' ' + LOCKSTEP_COMM_BENCH + " --op " + op +
                         " --min 4 --max 300000 --factor 40 --repetitions 3 --warmup 1 2>&1"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, std::to_string(2 * per_host) + " ranks on 2 nodes"), 1) << result.output;
  EXPECT_GE(occurrences(result.output, "  ok\n"), 3) << result.output;
  EXPECT_EQ(occurrences(result.output, "wrong"), 0) << result.output;
}

INSTANTIATE_TEST_SUITE_P(All, EveryOperation,
                         testing::Values(std::pair("all_reduce", 1), std::pair("all_reduce", 2),
                                         std::pair("broadcast", 1), std::pair("broadcast", 2),
                                         std::pair("all_gather", 1), std::pair("all_gather", 2),
                                         std::pair("reduce_scatter", 1), std::pair("reduce_scatter", 2),
                                         std::pair("barrier", 1), std::pair("barrier", 2)),
                         [](const auto& test) {
                           return std::string(test.param.first) + std::to_string(test.param.second);
                         });

}  // namespace
}  // namespace lockstep::testing_support
