// SPDX-License-Identifier: Apache-2.0
// Every instruction set gives the same bits as the scalar kernels: for random elements, half of them awkward, at every
// alignment of the vectors and with every remainder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "kernels/awkward_elements.hpp"
#include "kernels/instruction_set.hpp"

namespace lockstep::kernels {
namespace {

static_assert(std::size(all_ops) == reduce_ops);

/// Inputs and outputs that begin `shift` elements into their memory, with a margin on both sides.
class Arrays {
 public:
  static constexpr std::int64_t margin = 64;

  Arrays(DType dtype, std::size_t arrays, std::int64_t elements, std::int64_t shift)
      : width_(size_of(dtype)), shift_(shift) {
    const auto bytes = static_cast<std::size_t>((elements + shift + 2 * margin) * width_);
    for (std::size_t k = 0; k < arrays; ++k) memory_.emplace_back(bytes + 64);
  }
  void randomize(DType dtype, std::mt19937_64& random) {
    for (auto& bytes : memory_) {
      const std::size_t rest = bytes.size() % static_cast<std::size_t>(width_);
      kernels::randomize(std::span(bytes).first(bytes.size() - rest), dtype, random);
    }
  }
  /// Returns array k, which begins `shift` elements after a cache line.
  void* at(std::size_t k) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_[k].data());
    return memory_[k].data() + (64 - address % 64) % 64 + static_cast<std::size_t>((margin + shift_) * width_);
  }
  [[nodiscard]] bool same_bytes(std::size_t k, Arrays& other) {
    const auto bytes = memory_[k].size() - 64;
    const auto before = static_cast<std::size_t>((margin + shift_) * width_);
    return std::memcmp(static_cast<char*>(at(k)) - before, static_cast<char*>(other.at(k)) - before, bytes) == 0;
  }
  void copy_from(Arrays& other) {
    for (std::size_t k = 0; k < memory_.size(); ++k) {
      const auto before = static_cast<std::size_t>((margin + shift_) * width_);
      std::memcpy(static_cast<char*>(at(k)) - before, static_cast<char*>(other.at(k)) - before, memory_[k].size() - 64);
    }
  }

 private:
  std::int64_t width_;
  std::int64_t shift_;
  std::vector<std::vector<char>> memory_;
};

bool kernel_lists(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("flags")) return (line + ' ').find(' ' + flag + ' ') != std::string::npos;
  return false;
}

TEST(InstructionSets, AreThoseThatTheKernelLists) {
  std::vector<std::string> expected = {"scalar", "baseline"};
  if (kernel_lists("avx2") && kernel_lists("f16c")) {
    expected.emplace_back("avx2");
    const auto wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl"};
    if (std::all_of(wide.begin(), wide.end(), kernel_lists)) expected.emplace_back("avx512");
  }
  std::vector<std::string> found;
  for (const InstructionSet* set : instruction_sets()) found.emplace_back(set->name);
  EXPECT_EQ(found, expected);
}

struct Case {
  DType dtype;
  ReduceOp op;
  std::int64_t elements;
  std::int64_t shift;
  std::size_t ins;
  std::size_t outs;  // the last output is separate; the others are also inputs
  bool streaming;
};

void run(const InstructionSet& set, const Case& c, Arrays& arrays) {
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (std::size_t k = 0; k < c.ins; ++k) ins.push_back(arrays.at(k));
  for (std::size_t k = 0; k < c.outs; ++k) outs.push_back(arrays.at(k + 1 == c.outs ? c.ins : k % c.ins));
  const std::int64_t width = c.ins == 1 ? size_of(c.dtype) : 1;
  combine(set,
          {.outs = outs.data(),
           .out_count = static_cast<std::int64_t>(c.outs),
           .ins = ins.data(),
           .in_count = static_cast<std::int64_t>(c.ins),
           .elements = c.elements * width,
           .streaming = c.streaming,
           .prefetch = c.streaming},
          c.dtype, c.op);
}

/// Compares all of the memory, margins included, so that a write outside the outputs is detected.
void expect_the_scalar_bits(const InstructionSet& set, const Case& c, std::mt19937_64& random) {
  Arrays expected(c.dtype, c.ins + 1, c.elements, c.shift);
  Arrays actual(c.dtype, c.ins + 1, c.elements, c.shift);
  expected.randomize(c.dtype, random);
  actual.copy_from(expected);
  run(*instruction_sets().front(), c, expected);
  run(set, c, actual);
  for (std::size_t k = 0; k <= c.ins; ++k) {
    ASSERT_TRUE(actual.same_bytes(k, expected))
        << set.name << ' ' << name(c.dtype) << ' ' << name(c.op) << ": " << c.elements << " elements, shifted by "
        << c.shift << ", " << c.ins << " inputs, " << c.outs << " outputs, array " << k
        << (c.streaming ? ", streaming" : "");
  }
}

using Reduction = std::pair<DType, ReduceOp>;

std::vector<Reduction> every_reduction() {
  std::vector<Reduction> all;
  for (const DType dtype : all_dtypes)
    for (const ReduceOp op : ops_of(dtype)) all.emplace_back(dtype, op);
  return all;
}

class InstructionSets : public testing::TestWithParam<std::tuple<const InstructionSet*, Reduction>> {};

TEST_P(InstructionSets, GiveTheScalarBits) {
  const auto& [set, reduction] = GetParam();
  const auto [dtype, op] = reduction;
  std::mt19937_64 random(7);
  const std::int64_t most = 4 * 64 / size_of(dtype) * 2 + 9;  // more than two blocks of the widest vectors
  for (std::int64_t elements = 0; elements <= most; elements += elements < 40 ? 1 : 13) {
    for (const std::int64_t shift : {0, 1, 3, 8, 17}) {
      for (const bool streaming : {false, true}) {
        const auto ins = static_cast<std::size_t>(1 + random() % 6);
        const auto outs = static_cast<std::size_t>(1 + random() % 4);
        expect_the_scalar_bits(*set, {dtype, op, elements, shift, ins, outs, streaming}, random);
      }
    }
  }
  for (std::size_t ins = 1; ins <= 9; ++ins) {
    for (std::size_t outs = 1; outs <= 4; ++outs) {
      expect_the_scalar_bits(*set, {dtype, op, 1009, 5, ins, outs, outs % 2 == 0}, random);
    }
  }
}

std::string case_name(const testing::TestParamInfo<InstructionSets::ParamType>& info) {
  const auto& [set, reduction] = info.param;
  const auto [dtype, op] = reduction;
  return std::string(set->name) + '_' + std::string(name(dtype)) + '_' + std::string(name(op));
}

INSTANTIATE_TEST_SUITE_P(Each, InstructionSets,
                         testing::Combine(testing::ValuesIn(instruction_sets().begin(), instruction_sets().end()),
                                          testing::ValuesIn(every_reduction())),
                         case_name);

/// With buffers at odd addresses, streaming stores must fall back to ordinary ones.
TEST(Misaligned, ElementsBetweenTheirBoundariesGiveTheScalarBits) {
  for (const InstructionSet* set : instruction_sets()) {
    std::vector<char> memory[3];
    std::mt19937_64 random(3);
    for (auto& bytes : memory) bytes.resize(4100);
    for (auto& bytes : memory) {
      for (char& byte : bytes) byte = static_cast<char>(random());
    }
    std::vector<char> expected = memory[2];
    const void* const ins[] = {memory[0].data() + 1, memory[1].data() + 2};
    const auto into = [&](const InstructionSet& by, char* out) {
      void* const outs[] = {out};
      combine(by, {outs, 1, ins, 2, 1000, true}, DType::int32, ReduceOp::sum);
    };
    into(*instruction_sets().front(), expected.data() + 3);
    into(*set, memory[2].data() + 3);
    EXPECT_EQ(memory[2], expected) << set->name;
  }
}

TEST(InstructionSetList, BeginsWithTheScalarOne) {
  ASSERT_GE(instruction_sets().size(), 2U);
  EXPECT_STREQ(instruction_sets().front()->name, "scalar");
  EXPECT_EQ(&widest_instruction_set(), instruction_sets().back());
}

}  // namespace
}  // namespace lockstep::kernels
