// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/facts.hpp"

#include <gtest/gtest.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "apps/cli/version.hpp"
#include "support/verdict.hpp"

namespace lockstep::cli {
namespace {

std::string id_of(const std::string& notes) { return build_id_of_notes(std::as_bytes(std::span(notes))); }

/// A note with sizes of less than 256 bytes.
std::string note(char type, const std::string& name, const std::string& text) {
  const auto padded = [](std::string bytes) {
    bytes.resize((bytes.size() + 3) / 4 * 4);
    return bytes;
  };
  const std::string zeros(3, '\0');
  return static_cast<char>(name.size()) + zeros + static_cast<char>(text.size()) + zeros + type + zeros + padded(name) +
         padded(text);
}

const std::string gnu("GNU\0", 4);

TEST(BuildId, IsTheDescriptionOfTheNoteOfItsTypeAndName) {
  const std::string other = note(1, gnu, "abc") + note(3, "Other", "x");
  EXPECT_EQ(id_of(other + note(3, gnu, "\x01\xfe\x10")), "01fe10");
  EXPECT_EQ(id_of(other), "");
  EXPECT_EQ(id_of(""), "");
}

TEST(BuildId, NotesThatAreCutGiveNone) {
  const std::string whole = note(3, gnu, "\x01\x02\x03\x04");
  ASSERT_EQ(id_of(whole), "01020304");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) EXPECT_EQ(id_of(whole.substr(0, bytes)), "") << bytes;
}

TEST(BuildId, HasTheCommitAndWhatTheLinkerHashed) {
  const std::string id = build_id();
  EXPECT_TRUE(id.starts_with(commit() + ", ")) << id;
  const std::string digits = id.substr(commit().size() + 2, 16);
  EXPECT_EQ(digits.size(), 16U) << id;
  EXPECT_EQ(digits.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
}

/// Returns the setting of a variable in short: "" if it is not compared, "warning" or "error".
std::string weight_of(const std::string& variable, const RunNature& nature) {
  const auto settings = variables_to_compare({{variable, "1"}}, nature);
  if (settings.empty()) return "";
  EXPECT_EQ(settings[0].name, "the variable " + variable);
  EXPECT_EQ(settings[0].value, "'1'");
  return settings[0].is_harmless ? "warning" : "error";
}

TEST(Facts, OfTheEnvironmentAreWeighedByWhatTheRunPromises) {
  EXPECT_EQ(weight_of("OMP_NUM_THREADS", {.same_bits = true, .on_gpus = true}), "warning");
  EXPECT_EQ(weight_of("ONEDNN_MAX_CPU_ISA", {}), "warning");
  EXPECT_EQ(weight_of("DNNL_MAX_CPU_ISA", {.same_bits = true}), "error");
  EXPECT_EQ(weight_of("NCCL_ALGO", {}), "warning");
  EXPECT_EQ(weight_of("NCCL_ALGO", {.on_gpus = true}), "error");
  EXPECT_EQ(weight_of("NCCL_NTHREADS", {.on_gpus = true}), "warning");
  for (const char* variable : {"NCCL_SOCKET_IFNAME", "NCCL_DEBUG_FILE", "ONEDNN_VERBOSE", "CUDA_VISIBLE_DEVICES",
                               "OMPI_COMM_WORLD_LOCAL_RANK", "HOSTNAME"})
    EXPECT_EQ(weight_of(variable, {.same_bits = true, .on_gpus = true}), "") << variable;
}

std::string value_of(const std::vector<Term>& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const Term& fact) { return fact.name == name; });
  return found == facts.end() ? "missing" : found->value;
}

TEST(Facts, SayWhetherSubnormalNumbersAreFlushed) {
  EXPECT_EQ(value_of(facts_of_process(), "subnormal numbers"), "kept");
#if defined(__SSE__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8000U);  // flush to zero
  const std::string flushed = value_of(facts_of_process(), "subnormal numbers");
  _mm_setcsr(before);
  EXPECT_EQ(flushed, "flushed to zero");
#else
  LOCKSTEP_SKIP(device) << "this processor has no SSE, by which the test flushes";
#endif
}

}  // namespace
}  // namespace lockstep::cli
