// SPDX-License-Identifier: Apache-2.0
#include "comm/call_signature.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace lockstep {
namespace {

Collective all_reduce(std::int64_t count, ReduceOp op = ReduceOp::sum, std::string_view label = "weights") {
  static float data = 0;
  const Buffer buffer{&data, {count}, DType::float32};
  return {CollectiveKind::all_reduce, buffer, buffer, op, {0}, Queue::host(), label};
}

Collective broadcast(Rank root) {
  Collective result = all_reduce(7);
  result.kind = CollectiveKind::broadcast;
  result.root = root;
  return result;
}

TEST(CallSignature, DiffersInWhateverTheCallsDifferIn) {
  Collective wide = all_reduce(100);
  wide.in.dtype = wide.out.dtype = DType::int32;
  const auto of_leaves = [](const LeafShares& shares) {
    Collective result = all_reduce(100);
    result.leaves = {shares, {100}};
    return result;
  };
  const std::vector<Collective> calls{
      of_leaves(7),
      of_leaves(8),
      of_leaves(LeafShares(std::vector<int>{3, 5})),
      of_leaves(LeafShares(std::vector<int>{5, 3})),
      all_reduce(100),
      all_reduce(101),
      all_reduce(100, ReduceOp::max),
      all_reduce(100, ReduceOp::sum, "biases"),
      wide,
      broadcast({0}),
      broadcast({1}),
      broadcast({4096}),
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t j = 0; j < calls.size(); ++j) {
      EXPECT_EQ(signature_of(calls[i]).hash == signature_of(calls[j]).hash, i == j) << i << " and " << j;
    }
  }
}

TEST(CallSignature, DependsOnTheCallsBeforeItOnceChained) {
  const CallSignature first = chained(signature_of(broadcast({0})), 0);
  const CallSignature other = chained(signature_of(broadcast({1})), 0);
  const CallSignature call = signature_of(all_reduce(100));
  EXPECT_EQ(chained(call, first.hash), chained(call, first.hash));
  EXPECT_NE(chained(call, first.hash), chained(call, other.hash));
  EXPECT_EQ(chained(call, first.hash).call, call.call);
  // The hashes also differ in the few bits that fit into a short tag, at one of the next calls.
  constexpr std::uint64_t bits = 0x3f;
  std::uint64_t ours = first.hash;
  std::uint64_t theirs = other.hash;
  int equal = 0;
  for (int k = 0; k < 640; ++k) {
    ours = chained(call, ours).hash;
    theirs = chained(call, theirs).hash;
    equal += (ours & bits) == (theirs & bits) ? 1 : 0;
  }
  EXPECT_LT(equal, 40) << "10 are to be expected";
}

TEST(EarlierDisagreement, SaysWhatEachCalledAndWhen) {
  const Error error = earlier_disagreement(2, signature_of(broadcast({2})), signature_of(broadcast({0})), 16, true);
  EXPECT_EQ(error.code(), ErrorCode::mismatch);
  EXPECT_EQ(error.context().peers, std::vector{2});
  EXPECT_EQ(error.message(),
            "an earlier operation was called differently: rank 2 called broadcast of 7 float32 from rank 2 where this "
            "rank called broadcast of 7 float32 from rank 0, as operation 17 of this communicator");
  const Error label = earlier_disagreement(2, signature_of(all_reduce(7)),
                                           signature_of(all_reduce(7, ReduceOp::sum, "biases")), 0, true);
  EXPECT_NE(label.message().find("rank 2 gave all_reduce of 7 float32 (sum) another label"), std::string::npos);
  const Error older = earlier_disagreement(2, signature_of(all_reduce(7)), signature_of(all_reduce(7)), 300, false);
  EXPECT_NE(older.message().find("operation 301 of this communicator or one before it: rank 2 differs"),
            std::string::npos)
      << older.message();
}

TEST(CallSignature, OfAReduceIsTheSameOnTheRootAndElsewhere) {
  Collective root = all_reduce(7);
  root.kind = CollectiveKind::reduce;
  Collective elsewhere = root;
  elsewhere.out = {nullptr, {0}, DType::float32};
  EXPECT_EQ(signature_of(root), signature_of(elsewhere));
}

TEST(CallSignature, OfAGatherOrScatterIsTheSameOnTheRootAndElsewhere) {
  static float data[21] = {};
  const Buffer part{data, {7}, DType::float32};
  const Buffer whole{data, {21}, DType::float32};
  const Buffer nothing{nullptr, {0}, DType::float32};
  EXPECT_EQ(signature_of({.kind = CollectiveKind::gather, .in = part, .out = whole, .root = {2}}),
            signature_of({.kind = CollectiveKind::gather, .in = part, .out = nothing, .root = {2}}));
  EXPECT_EQ(signature_of({.kind = CollectiveKind::scatter, .in = whole, .out = part, .root = {2}}),
            signature_of({.kind = CollectiveKind::scatter, .in = nothing, .out = part, .root = {2}}));
  EXPECT_EQ(describe(signature_of({.kind = CollectiveKind::gather, .in = part, .out = nothing, .root = {2}})),
            "gather of 7 float32 to rank 2");
  EXPECT_EQ(describe(signature_of({.kind = CollectiveKind::scatter, .in = nothing, .out = part, .root = {2}})),
            "scatter of 7 float32 from rank 2");
}

Error disagreement_of(const std::vector<Collective>& calls) {
  std::vector<std::byte> all;
  for (const Collective& call : calls) {
    const CallSignature signature = signature_of(call);
    all.insert(all.end(), signature.bytes().begin(), signature.bytes().end());
  }
  try {
    require_agreement(all);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::io, "they agree");
}

TEST(RequireAgreement, NamesWhoDiffersFromTheMajority) {
  const Error one = disagreement_of({all_reduce(7), broadcast({1}), all_reduce(7)});
  EXPECT_EQ(one.code(), ErrorCode::mismatch);
  EXPECT_EQ(one.context().peers, std::vector{1});
  EXPECT_EQ(one.message(),
            "rank 1 calls broadcast of 7 float32 from rank 1 where the others call all_reduce of 7 float32 (sum) (what "
            "reads the same differs in its label, or in the counts of its parts or leaves)");
  const Error two = disagreement_of({all_reduce(8), all_reduce(7), all_reduce(7), all_reduce(8), all_reduce(7)});
  EXPECT_EQ(two.context().peers, (std::vector{0, 3}));
}

TEST(RequireAgreement, NamesAllWhereThereIsNoMajority) {
  const Error error = disagreement_of({all_reduce(7), all_reduce(7, ReduceOp::max)});
  EXPECT_EQ(error.context().peers, (std::vector{0, 1}));
  EXPECT_NE(error.message().find("rank 0 calls all_reduce of 7 float32 (sum); rank 1 calls all_reduce of 7 float32 "
                                 "(max)"),
            std::string::npos)
      << error.what();
}

TEST(RequireAgreement, IsContentWhereAllCallTheSame) {
  EXPECT_EQ(disagreement_of({all_reduce(7)}).message(), "they agree");
  EXPECT_EQ(disagreement_of({all_reduce(7), all_reduce(7), all_reduce(7)}).message(), "they agree");
}

}  // namespace
}  // namespace lockstep
