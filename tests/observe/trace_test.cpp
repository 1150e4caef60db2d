// SPDX-License-Identifier: Apache-2.0
#include "observe/trace.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.hpp"
#include "observe/scratch_file.hpp"

namespace lockstep::observe {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

const Clock::time_point origin{std::chrono::seconds(1000)};

json events_of(const TraceRecorder& recorder) { return json::parse("[" + recorder.events_json() + "]"); }

TEST(TraceRecorder, WritesCompleteEventsInMicrosecondsFromTheOrigin) {
  TraceRecorder recorder({.rank = {3}, .host = "node7", .origin = origin});
  recorder.span({"compute", "backward", origin + microseconds(10), origin + microseconds(35), {}});
  recorder.span({"communication", "bucket 0", origin + microseconds(20), origin + microseconds(60), {4096}, "ring"});
  recorder.span({"compute", "forward", origin - microseconds(5), origin, {}});
  const json events = events_of(recorder);
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0], json::parse(R"({"ph":"M","name":"process_name","pid":3,"tid":0,
                                       "args":{"name":"rank 3 on node7"}})"));
  EXPECT_EQ(events[1], json::parse(R"({"ph":"M","name":"thread_name","pid":3,"tid":0,"args":{"name":"compute"}})"));
  EXPECT_EQ(events[2],
            json::parse(R"({"ph":"M","name":"thread_name","pid":3,"tid":1,"args":{"name":"communication"}})"));
  EXPECT_EQ(events[3], json::parse(R"({"ph":"X","name":"backward","pid":3,"tid":0,"ts":10.0,"dur":25.0})"));
  EXPECT_EQ(events[4], json::parse(R"({"ph":"X","name":"bucket 0","pid":3,"tid":1,"ts":20.0,"dur":40.0,
                                       "args":{"bytes":4096,"algorithm":"ring"}})"));
  EXPECT_EQ(events[5], json::parse(R"({"ph":"X","name":"forward","pid":3,"tid":0,"ts":-5.0,"dur":5.0})"));
}

TEST(TraceRecorder, KeepsEverySpanOfEveryThread) {
  constexpr int threads = 4;
  constexpr int spans = 5000;
  TraceRecorder recorder({.rank = {0}, .host = "h", .origin = origin});
  std::array<std::thread, threads> workers;
  for (int t = 0; t < threads; ++t) {
    workers.at(static_cast<std::size_t>(t)) = std::thread([&recorder, track = "data " + std::to_string(t)] {
      for (int i = 0; i < spans; ++i)
        recorder.span({track, "make", origin + microseconds(i), origin + microseconds(i + 1), {}});
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(events_of(recorder).size(), static_cast<std::size_t>(1 + threads + threads * spans));
}

TEST(TraceRecorder, EscapesNames) {
  TraceRecorder recorder({.rank = {0}, .host = "h\"", .origin = origin});
  recorder.span({"a\\b", "c\n", origin, origin, {}});
  EXPECT_EQ(events_of(recorder)[2]["name"], "c\n");
}

TEST(TraceFile, JoinsTheRanks) {
  std::vector<std::string> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    TraceRecorder recorder({.rank = {rank}, .host = "h", .origin = origin});
    recorder.span({"compute", "step", origin, origin + microseconds(1), {}});
    ranks.push_back(recorder.events_json());
  }
  const ScratchFile scratch;
  TraceFile(scratch.path()).write(ranks);
  const json trace = json::parse(scratch.text());
  ASSERT_EQ(trace["traceEvents"].size(), 9U);
  EXPECT_EQ(trace["traceEvents"][8]["pid"], 2);
}

TEST(TraceFile, ReplacesAnOlderTrace) {
  const ScratchFile scratch;
  std::ofstream(scratch.path()) << std::string(10'000, 'x');
  TraceFile(scratch.path()).write({});
  EXPECT_TRUE(json::parse(scratch.text())["traceEvents"].empty());
}

TEST(TraceFile, UnwritablePathIsKnownAtOnce) {
  try {
    const TraceFile file("/no/such/folder/trace.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(error.message(), "cannot write /no/such/folder/trace.json: No such file or directory");
  }
}

TEST(TraceFile, FullDiskIsKnownAtOnce) {
  try {
    const TraceFile file("/dev/full");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot write /dev/full: No space left on device");
  }
}

}  // namespace
}  // namespace lockstep::observe
