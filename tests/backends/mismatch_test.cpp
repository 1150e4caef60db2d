// SPDX-License-Identifier: Apache-2.0
// Tests a rank that calls something else than the others. All ranks get a mismatch error, without waiting for the
// deadline. The tests run over messages, and with the MPI library's collectives if ranks compare their calls;
// shared_memory_test covers ranks that share memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/keep.hpp"
#include "backends/make_agreed.hpp"
#include "backends/mpi_native/mpi_native.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/mpi/world.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "support/algorithms.hpp"

namespace lockstep::backends {
namespace {

using collectives::Algorithm;

constexpr auto mismatch_deadline = std::chrono::seconds(90);  // longer than the test may take
constexpr std::int64_t eager = 60;                            // unit: elements
constexpr std::int64_t large = 1 << 18;                       // messages as long as a segment
constexpr Bytes mismatch_segment{128 * 1024};                 // above any eager limit

using Call = std::function<Work(Communicator&, Buffer)>;

/// The call of most ranks, and that of the last one.
struct Difference {
  std::string name;
  Call most;
  Call odd;
};

Work add(Communicator& c, const Buffer& b, ReduceOp op = ReduceOp::sum, std::string_view label = "weights") {
  return c.all_reduce(b, b, op, Queue::host(), label);
}

/// All parts have the same length except two, which are longer and shorter by `more`, so that the total is unchanged.
Work all_gather_v(Communicator& c, const Buffer& b, std::int64_t more) {
  const std::int64_t part = b.count.value / (2 * c.size() + 2);
  std::vector<Count> counts(static_cast<std::size_t>(c.size()), {part});
  counts.front().value += more;
  counts.back().value -= more;
  const Count own = counts[static_cast<std::size_t>(c.rank().value)];
  return c.all_gather_v(slice(b, {c.size() * part}, own), slice(b, {0}, {c.size() * part}), counts);
}

const Difference differences[] = {
    {"Kind", [](Communicator& c, Buffer b) { return add(c, b); },
     [](Communicator& c, Buffer b) { return c.broadcast(b, {0}, Queue::host(), "weights"); }},
    {"Count", [](Communicator& c, Buffer b) { return add(c, b); },
     [](Communicator& c, Buffer b) { return add(c, slice(b, {0}, {b.count.value - 1})); }},
    {"Dtype", [](Communicator& c, Buffer b) { return add(c, b); },
     [](Communicator& c, Buffer b) {
       return add(c, {b.data, b.count, DType::int32, b.kind});
     }},
    {"Operator", [](Communicator& c, Buffer b) { return add(c, b); },
     [](Communicator& c, Buffer b) { return add(c, b, ReduceOp::max); }},
    {"Label", [](Communicator& c, Buffer b) { return add(c, b); },
     [](Communicator& c, Buffer b) { return add(c, b, ReduceOp::sum, "biases"); }},
    {"RootOfABroadcast", [](Communicator& c, Buffer b) { return c.broadcast(b, {0}); },
     [](Communicator& c, Buffer b) { return c.broadcast(b, {1}); }},
    {"CountsOfParts", [](Communicator& c, Buffer b) { return all_gather_v(c, b, 0); },
     [](Communicator& c, Buffer b) { return all_gather_v(c, b, 1); }},
    {"OneMoreBefore", [](Communicator& c, Buffer b) { return add(c, b); },
     [](Communicator& c, Buffer b) {
       static auto* const kept = new std::vector<Work>;
       kept->push_back(c.barrier());
       return add(c, b);
     }},
};

/// Returns the error of an operation or, if this rank's part of it completed, of the barrier after it.
std::optional<Error> error_of(Communicator& c, const Call& call, const Buffer& buffer) {
  try {
    call(c, buffer).wait();
    c.barrier().wait();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// Ends a test in which the ranks have failed, so that no rank leaves while another one's messages are under way.
template <typename... Things>
void defer(World& world, std::unique_ptr<Communicator> c, Things... things) {
  EXPECT_THROW((void)c->barrier(), Error) << "the ranks no longer agree about what has been done";
  barrier(world.group());
  keep(std::move(c));
  (keep(std::move(things)), ...);
  world.close();
}

/// Rank r contributes 2^r, so that a sum shows whose values it contains.
float brought(int rank) { return static_cast<float>(1 << rank); }

/// Returns whether the odd rank has anything but its input, or another rank has anything of the odd rank's.
bool is_mixed(const std::vector<float>& data, int rank, int odd) {
  return std::any_of(data.begin(), data.end(), [&](float value) {
    if (rank == odd) return value != brought(odd);
    return (std::lround(value) & (1L << odd)) != 0 || value < 1;
  });
}

void expect_to_name(const std::optional<Error>& error, int odd, int rank) {
  ASSERT_TRUE(error) << "nothing was thrown";
  EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
  const std::vector<int>& peers = error->context().peers;
  EXPECT_TRUE(rank == odd || std::find(peers.begin(), peers.end(), odd) != peers.end()) << error->what();
  EXPECT_FALSE(error->context().operation.empty()) << error->what();
  EXPECT_EQ(error->context().rank, rank);
  EXPECT_FALSE(error->context().host.empty());
}

class Mismatch : public testing::TestWithParam<std::tuple<Difference, Algorithm, std::int64_t, Sockets>> {};

TEST_P(Mismatch, IsFoundByEveryRank) {
  const auto& [difference, algorithm, count, sockets] = GetParam();
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = plan_on(world.group(), *progress,
                   {.selection = collectives::forced({.algorithm = algorithm, .segment = mismatch_segment}),
                    .sockets = sockets,
                    .deadline = mismatch_deadline});
  const int odd = world.size() - 1;
  std::vector<float> data(static_cast<std::size_t>(count), brought(world.rank().value));
  const Buffer buffer{data.data(), {count}, DType::float32};
  const bool is_odd = world.rank() == odd;
  const auto error = error_of(*c, is_odd ? difference.odd : difference.most, buffer);
  expect_to_name(error, odd, world.rank().value);
  barrier(world.group());
  EXPECT_FALSE(is_mixed(data, world.rank().value, odd)) << "data of different operations met";
  defer(world, std::move(c), std::move(progress), std::move(data));
}

INSTANTIATE_TEST_SUITE_P(
    , Mismatch,
    testing::Combine(testing::ValuesIn(differences),
                     testing::ValuesIn(testing_support::not_canonical(testing_support::message_algorithms)),
                     testing::Values(eager, large), testing::Values(Sockets::automatic, Sockets::everywhere)),
    [](const auto& parameter) {
      std::string algorithm(name(std::get<1>(parameter.param)));
      std::replace(algorithm.begin(), algorithm.end(), '-', '_');
      return std::get<0>(parameter.param).name + "_" + algorithm +
             (std::get<2>(parameter.param) == eager ? "_eager" : "_large") +
             (std::get<3>(parameter.param) == Sockets::everywhere ? "_by_sockets" : "");
    });

/// The difference between a recv and the send that it matches.
struct MessageDifference {
  std::string name;
  std::int64_t count;
  DType dtype;
  std::string label;
};
const MessageDifference message_differences[] = {{"Count", 10, DType::float32, "weights"},
                                                 {"Longer", 14, DType::float32, "weights"},
                                                 {"Dtype", 12, DType::int32, "weights"},
                                                 {"Label", 12, DType::float32, "biases"}};
enum class Transport { plan, sockets, mpi_native };

std::string_view suffix_of(Transport transport) {
  return transport == Transport::mpi_native ? "_native" : transport == Transport::sockets ? "_sockets" : "_plan";
}

/// Makes a communicator; the MPI library's own collectives compare calls if `check` says so.
std::unique_ptr<Communicator> make(const World& world, Progress& progress, Transport transport, bool check) {
  if (transport == Transport::mpi_native)
    return make_mpi_native(world.group(), progress, {.check = check, .deadline = mismatch_deadline});
  const Sockets sockets = transport == Transport::sockets ? Sockets::everywhere : Sockets::automatic;
  return plan_on(world.group(), progress, {.sockets = sockets, .deadline = mismatch_deadline});
}

class MismatchedMessage : public testing::TestWithParam<std::tuple<MessageDifference, Transport, std::int64_t>> {};

std::string name_of(const std::tuple<MessageDifference, Transport, std::int64_t>& parameter) {
  const auto& [difference, transport, times] = parameter;
  return difference.name + std::string(suffix_of(transport)) + (times == 1 ? "_eager" : "_large");
}

/// The last rank sends to the first, which detects the mismatch and notifies the sender and the other ranks.
TEST_P(MismatchedMessage, IsNamedByBothSidesAndHeardOfByAll) {
  const auto& [difference, transport, times] = GetParam();
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make(world, *progress, transport, false);
  std::vector<float> data(static_cast<std::size_t>(14 * times), 1.0F);
  const int last = world.size() - 1;
  std::optional<Error> error;
  try {
    if (world.rank() == 0) {
      c->recv({data.data(), {difference.count * times}, difference.dtype}, {last}, Queue::host(), difference.label)
          .wait();
    } else if (world.rank() == last) {
      c->send(Buffer{data.data(), {12 * times}, DType::float32}, {0}, Queue::host(), "weights").wait();
    }
    c->barrier().wait();
  } catch (const Error& thrown) {
    error = thrown;
  }
  ASSERT_TRUE(error) << "nothing was thrown";
  EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
  const std::vector<int>& peers = error->context().peers;
  const int other = world.rank() == 0 ? last : 0;
  EXPECT_TRUE(std::find(peers.begin(), peers.end(), other) != peers.end()) << error->what();
  EXPECT_EQ(std::count(data.begin(), data.end(), 1.0F), static_cast<std::ptrdiff_t>(data.size()));
  defer(world, std::move(c), std::move(progress), std::move(data));
}

INSTANTIATE_TEST_SUITE_P(, MismatchedMessage,
                         testing::Combine(testing::ValuesIn(message_differences),
                                          testing::Values(Transport::plan, Transport::sockets, Transport::mpi_native),
                                          testing::Values(1, 10'000)),
                         [](const auto& parameter) { return name_of(parameter.param); });

/// The number of elements by which the last rank sends more to the first one than that expects.
using PairDifference = std::tuple<std::int64_t, Transport, std::int64_t>;
class MismatchedCounts : public testing::TestWithParam<PairDifference> {};

std::string name_of_pair(const PairDifference& parameter) {
  const auto& [more, transport, part] = parameter;
  return std::string(more > 0 ? "More" : "Fewer") + std::string(suffix_of(transport)) +
         (part == eager ? "_eager" : "_large");
}

/// The first rank detects the mismatch and notifies the sender and the other ranks.
TEST_P(MismatchedCounts, AreNamedByWhoReceivesAndHeardOfByAll) {
  const auto& [more, transport, part] = GetParam();
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make(world, *progress, transport, true);
  const auto ranks = static_cast<std::size_t>(world.size());
  const int last = world.size() - 1;
  std::vector<Count> sent(ranks, {part});
  const std::vector<Count> received(ranks, {part});
  if (world.rank() == last) sent.front().value += more;
  const std::int64_t whole = part * world.size();
  std::vector<float> in(static_cast<std::size_t>(whole + 1), brought(world.rank().value));
  constexpr float of_somebody_else = -1.0F;
  std::vector<float> out(static_cast<std::size_t>(whole), 0.0F);
  out.push_back(of_somebody_else);
  const Buffer from{in.data(), {whole + (world.rank() == last ? more : 0)}, DType::float32};
  const Buffer to{out.data(), {whole}, DType::float32};
  const auto exchange = [&](Communicator& all, const Buffer&) { return all.all_to_all_v(from, sent, to, received); };
  const auto error = error_of(*c, exchange, to);
  ASSERT_TRUE(error) << "nothing was thrown";
  EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
  if (world.rank() == 0) {
    // With MPI's collectives all ranks compare, so another one may be the first to report.
    const std::vector<int>& peers = error->context().peers;
    EXPECT_TRUE(std::find(peers.begin(), peers.end(), last) != peers.end()) << error->what();
    EXPECT_TRUE(error->is_consequence() || peers.front() == last) << error->what();
    EXPECT_EQ(error->context().operation, "all_to_all_v") << error->what();
    EXPECT_TRUE(transport == Transport::mpi_native || !error->is_consequence()) << error->what();
  }
  EXPECT_EQ(out.back(), of_somebody_else) << "behind the buffer was written";
  if (transport == Transport::mpi_native) {  // these are compared before anything is sent
    EXPECT_EQ(std::count(out.begin(), out.end(), 0.0F), whole);
  }
  defer(world, std::move(c), std::move(progress), std::move(in), std::move(out));
}

INSTANTIATE_TEST_SUITE_P(, MismatchedCounts,
                         testing::Combine(testing::Values(1, -1),
                                          testing::Values(Transport::plan, Transport::sockets, Transport::mpi_native),
                                          testing::Values(eager, large)),
                         [](const auto& parameter) { return name_of_pair(parameter.param); });

class ComparedMismatch : public testing::TestWithParam<Difference> {};

TEST_P(ComparedMismatch, IsFoundByEveryRankBeforeDataAreTouched) {
  const Difference& difference = GetParam();
  constexpr std::int64_t count = large;
  World world;
  auto progress = std::make_unique<Progress>(WaitPolicy{.spins_before_yield = 0});
  auto c = make_mpi_native(world.group(), *progress, {.check = true, .deadline = mismatch_deadline});
  std::vector<float> data(static_cast<std::size_t>(count), static_cast<float>(world.rank().value));
  const Buffer buffer{data.data(), {count}, DType::float32};
  const int odd = world.size() - 1;
  const auto error = error_of(*c, world.rank() == odd ? difference.odd : difference.most, buffer);
  ASSERT_TRUE(error) << "nothing was thrown";
  EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
  if (!error->is_consequence()) {  // otherwise another rank detected it first and notified this one
    const std::vector<int>& peers = error->context().peers;
    const bool both = world.size() == 2;
    // On a busy machine the odd rank may have compared itself with one other before all have compared.
    const bool in_a_pair = world.rank() == odd && peers.size() == 1 && peers.front() != odd &&
                           std::string_view(error->what()).find(" this ") != std::string_view::npos;
    EXPECT_TRUE(in_a_pair || peers == (both ? std::vector{0, odd} : std::vector{odd})) << error->what();
  }
  EXPECT_FALSE(error->context().operation.empty()) << error->what();
  EXPECT_EQ(std::count(data.begin(), data.end(), static_cast<float>(world.rank().value)), count);
  defer(world, std::move(c), std::move(progress), std::move(data));
}

INSTANTIATE_TEST_SUITE_P(, ComparedMismatch, testing::ValuesIn(differences),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::backends
