// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "backends/nccl.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

constexpr const char* name_of_variable = "LOCKSTEP_TEST_NCCL_ALGO";

class NcclAlgorithmVariable : public testing::Test {
 protected:
  void SetUp() override { unsetenv(name_of_variable); }
  void TearDown() override { unsetenv(name_of_variable); }

  static std::optional<std::string> value() {
    const char* text = std::getenv(name_of_variable);
    return text != nullptr ? std::optional<std::string>(text) : std::nullopt;
  }
  std::string refusal(NcclAlgorithm algorithm) {
    try {
      const AlgorithmVariable::Hold hold(variable, algorithm);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      return error.message();
    }
    return "";
  }
  void make(NcclAlgorithm algorithm) { AlgorithmVariable::Hold(variable, algorithm).keep(); }

  AlgorithmVariable variable{name_of_variable};
};

TEST_F(NcclAlgorithmVariable, IsSetWhileACommunicatorIsMade) {
  {
    const AlgorithmVariable::Hold hold(variable, NcclAlgorithm::ring);
    EXPECT_EQ(value(), "allreduce:ring");
  }
  EXPECT_EQ(value(), std::nullopt);
  {
    const AlgorithmVariable::Hold hold(variable, NcclAlgorithm::tree);
    EXPECT_EQ(value(), "allreduce:tree");
  }
  EXPECT_EQ(value(), std::nullopt);
}

TEST_F(NcclAlgorithmVariable, IsPutBackAsTheUserHadIt) {
  setenv(name_of_variable, "^nvls", 1);
  make(NcclAlgorithm::ring);
  EXPECT_EQ(value(), "^nvls");
  setenv(name_of_variable, "", 1);
  make(NcclAlgorithm::ring);
  EXPECT_EQ(value(), "");
}

TEST_F(NcclAlgorithmVariable, IsPutBackByTheLastOfSeveralThatMakeOnes) {
  setenv(name_of_variable, "mine", 1);
  std::optional<AlgorithmVariable::Hold> first(std::in_place, variable, NcclAlgorithm::tree);
  std::optional<AlgorithmVariable::Hold> second(std::in_place, variable, NcclAlgorithm::tree);
  first.reset();
  EXPECT_EQ(value(), "allreduce:tree");
  second.reset();
  EXPECT_EQ(value(), "mine");
}

TEST_F(NcclAlgorithmVariable, IsTheUsersWhereNcclChoosesOrIsNotAsked) {
  setenv(name_of_variable, "mine", 1);
  for (const NcclAlgorithm algorithm : {NcclAlgorithm::automatic, NcclAlgorithm::tree_order}) {
    const AlgorithmVariable::Hold hold(variable, algorithm);
    EXPECT_EQ(value(), "mine");
  }
  EXPECT_EQ(value(), "mine");
}

TEST_F(NcclAlgorithmVariable, AProcessStaysWithTheOneOfItsFirstCommunicator) {
  make(NcclAlgorithm::ring);
  EXPECT_EQ(refusal(NcclAlgorithm::ring), "");
  EXPECT_EQ(refusal(NcclAlgorithm::tree_order), "");
  for (const NcclAlgorithm other : {NcclAlgorithm::tree, NcclAlgorithm::automatic}) {
    const std::string why = refusal(other);
    EXPECT_NE(why.find("NCCL by the algorithm " + std::string(name(other))), std::string::npos) << why;
    EXPECT_NE(why.find("an earlier communicator of this process has ring"), std::string::npos) << why;
  }
  EXPECT_EQ(value(), std::nullopt) << "what is refused sets nothing";
}

TEST_F(NcclAlgorithmVariable, OneThatWasNeverMadeBindsNobody) {
  EXPECT_EQ(refusal(NcclAlgorithm::ring), "");
  EXPECT_EQ(refusal(NcclAlgorithm::automatic), "");
  const AlgorithmVariable::Hold being_made(variable, NcclAlgorithm::tree);
  EXPECT_NE(refusal(NcclAlgorithm::ring), "") << "while another one is being made";
  EXPECT_EQ(value(), "allreduce:tree");
}

}  // namespace
}  // namespace lockstep::backends
