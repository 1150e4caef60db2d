// SPDX-License-Identifier: Apache-2.0
// Several processes, as ranks with a sharded optimizer, write their parts of one file.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "lockstep/base/leaves.hpp"
#include "state/safetensors_file.hpp"
#include "state/scratch_folder.hpp"

namespace lockstep::state {
namespace {

constexpr int most_parts = 64;  // of one rank

/// What the processes tell the test, in memory that they share.
struct Report {
  int parts = 0;
  WrittenPart part[most_parts];
};

Layout odd_layout() {
  Layout layout;
  layout.add("conv.weight", {7, 3, 3, 3});
  layout.add("conv.bias", {7});
  layout.add("empty", {0, 4});
  layout.add("fc.weight", {1000, 37});
  layout.add("fc.bias", {1});
  return layout;
}

/// Rank `rank` of `ranks` owns every ranks-th of nearly equal ranges of the layout, as of buckets that are divided.
std::vector<LayoutPart> owned(const Layout& layout, int rank, int ranks) {
  std::vector<LayoutPart> parts;
  for (std::int64_t bucket = 0; bucket < 5; ++bucket) {
    const Share whole = share_of(layout.count().value, bucket, 5);
    const Share own = share_of(whole.count, rank, ranks);
    parts.push_back({{whole.first + own.first}, {own.count}});
  }
  return parts;
}

SafetensorsHeader header_of(const Layout& layout) {
  std::vector<StoredTensor> tensors;
  for (const TensorSlot& slot : layout.tensors()) tensors.push_back({slot.name, DType::float32, slot.shape});
  return SafetensorsHeader::of(std::move(tensors));
}

void write_as_rank(const std::filesystem::path& path, const std::vector<float>& values, int rank, int ranks,
                   Report& report) {
  const Layout layout = odd_layout();
  const SafetensorsWriter writer(path, header_of(layout));
  for (const LayoutPart& own : owned(layout, rank, ranks)) {
    for (const TensorPart& part : tensor_parts(layout, own)) {
      const TensorSlot& slot = layout.at(part.tensor);
      const float* data = values.data() + slot.offset.value + part.first.value;
      report.part[report.parts++] =
          writer.write(writer.header().index_of(slot.name), part.first, {data, part.count, DType::float32});
    }
  }
  writer.sync();
}

TEST(Writers, ProcessesMakeTheFileThatOneProcessMakes) {
  const Layout layout = odd_layout();
  const SafetensorsHeader header = header_of(layout);
  std::vector<float> values(static_cast<std::size_t>(layout.count().value));
  std::iota(values.begin(), values.end(), 1.0F);
  const ScratchFolder folder;
  std::string expected;
  for (const int ranks : {1, 2, 3, 5}) {
    const auto path = folder / std::to_string(ranks);
    SafetensorsWriter::create(path, header);
    void* memory = mmap(nullptr, ranks * sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* reports = static_cast<Report*>(memory);
    for (int rank = 0; rank < ranks; ++rank) {
      if (fork() != 0) continue;
      try {
        write_as_rank(path, values, rank, ranks, reports[rank]);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      int status = -1;
      wait(&status);
      ASSERT_EQ(status, 0);
    }
    std::vector<WrittenPart> parts;
    for (int rank = 0; rank < ranks; ++rank)
      parts.insert(parts.end(), reports[rank].part, reports[rank].part + reports[rank].parts);
    munmap(memory, ranks * sizeof(Report));

    const std::string text = content_of(path);
    if (ranks == 1) expected = text;
    EXPECT_EQ(text, expected) << ranks;
    const Checksum whole = file_checksum(header, tensor_checksums(header, parts));
    EXPECT_EQ(whole, checksum_of(std::as_bytes(std::span(text)))) << ranks;
  }
  std::vector<float> weight(37'000);
  const SafetensorsReader reader(folder / "3");
  reader.read(reader.index_of("fc.weight"), {0}, weight);
  EXPECT_EQ(weight.front(), values.at(static_cast<std::size_t>(layout.find("fc.weight").offset.value)));
  EXPECT_EQ(weight.back() - weight.front(), 36'999);
}

}  // namespace
}  // namespace lockstep::state
