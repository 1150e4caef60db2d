// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "state/safetensors_file.hpp"
#include "state/scratch_folder.hpp"

namespace lockstep::state {
namespace {

constexpr DType all_dtypes[] = {DType::float32, DType::float64, DType::int32,   DType::int64,
                                DType::uint8,   DType::float16, DType::bfloat16};

/// A tensor of each dtype, with an odd number of elements; one without elements and one without extents.
std::vector<StoredTensor> one_of_each() {
  std::vector<StoredTensor> tensors;
  for (const DType dtype : all_dtypes) tensors.push_back({"of " + std::string(name(dtype)), dtype, {3, 1, 5}});
  tensors.push_back({"empty", DType::float32, {std::int64_t{1} << 62, 0, std::int64_t{1} << 62}});
  tensors.push_back({"scalar \"quoted\" ü", DType::float64, {}});
  return tensors;
}

std::vector<std::byte> random_bytes(Bytes size, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size.value));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

TEST(Safetensors, KeepsTheBitsOfEveryDtype) {
  const ScratchFolder folder;
  const auto header = SafetensorsHeader::of(one_of_each(), {{"format", "pt"}, {"note", "a\nb"}});
  SafetensorsWriter::create(folder / "file", header);
  const SafetensorsWriter writer(folder / "file", header);
  std::vector<WrittenPart> parts;
  for (std::size_t i = 0; i < header.tensors().size(); ++i) {
    const StoredTensor& tensor = header.tensors()[i];
    auto bytes = random_bytes(tensor.bytes(), static_cast<unsigned>(i));
    parts.push_back(writer.write(static_cast<int>(i), {0}, {bytes.data(), tensor.count(), tensor.dtype}));
  }
  const auto sums = tensor_checksums(header, parts);

  const SafetensorsReader reader(folder / "file");
  EXPECT_EQ(reader.header().tensors(), header.tensors());
  EXPECT_EQ(reader.header().metadata(), header.metadata());
  Checksum whole = reader.header_checksum();
  for (std::size_t i = 0; i < header.tensors().size(); ++i) {
    const StoredTensor& tensor = header.tensors()[i];
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().value));
    reader.read(reader.index_of(tensor.name), {0}, {bytes.data(), tensor.count(), tensor.dtype});
    EXPECT_EQ(bytes, random_bytes(tensor.bytes(), static_cast<unsigned>(i))) << tensor.name;
    EXPECT_EQ(reader.checksum(static_cast<int>(i)), sums[i]) << tensor.name;
    EXPECT_EQ(tensor.offset.value % size_of(tensor.dtype), 0) << tensor.name;
    whole = joined(whole, sums[i]);
  }
  const std::string text = content_of(folder / "file");
  EXPECT_EQ(whole, checksum_of(std::as_bytes(std::span(text))));
  EXPECT_EQ(whole, file_checksum(header, sums));
}

TEST(Safetensors, LayoutDoesNotDependOnTheOrderOfTheTensors) {
  std::vector<StoredTensor> tensors = one_of_each();
  const std::string text = SafetensorsHeader::of(tensors).text();
  std::mt19937 generator(1);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(tensors.begin(), tensors.end(), generator);
    EXPECT_EQ(SafetensorsHeader::of(tensors).text(), text);
  }
}

TEST(Safetensors, ReadsAPartOfATensor) {
  const ScratchFolder folder;
  const auto header = SafetensorsHeader::of({{"a", DType::int32, {10}}});
  SafetensorsWriter::create(folder / "file", header);
  std::vector<std::int32_t> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  (void)SafetensorsWriter(folder / "file", header).write(0, {0}, values);
  std::vector<std::int32_t> part(4);
  SafetensorsReader(folder / "file").read(0, {3}, part);
  EXPECT_EQ(part, (std::vector<std::int32_t>{3, 4, 5, 6}));
}

TEST(Safetensors, RefusesRangesAndMemoryThatDoNotFit) {
  const ScratchFolder folder;
  const auto header = SafetensorsHeader::of({{"layer.weight", DType::int32, {10}}});
  SafetensorsWriter::create(folder / "file", header);
  const SafetensorsReader reader(folder / "file");
  const SafetensorsWriter writer(folder / "file", header);
  std::vector<std::int32_t> four(4);
  std::vector<float> floats(4);
  const auto code = ErrorCode::invalid_argument;
  expect_refusal([&] { reader.read(0, {7}, four); }, code, {"file", "layer.weight", "10 elements"});
  expect_refusal([&] { reader.read(0, {-1}, four); }, code, {"10 elements"});
  expect_refusal([&] { (void)writer.write(0, {7}, four); }, code, {"layer.weight"});
  expect_refusal([&] { reader.read(0, {0}, floats); }, code, {"dtype int32", "float32"});
  expect_refusal([&] { reader.read(0, {0}, {four.data(), {4}, DType::int32, MemoryKind::device}); }, code, {"device"});
  expect_refusal([&] { (void)reader.index_of("layer.weigth"); }, code, {"did you mean 'layer.weight'"});
  // A file that loses its end after it was opened.
  std::filesystem::resize_file(folder / "file", 90);
  expect_refusal(
      [&] {
        reader.read(0, {0}, Buffer(four));
        reader.read(0, {6}, four);
      },
      ErrorCode::corrupt, {"ends at byte 90", "another copy"});
}

TEST(Safetensors, RefusesTensorsThatNoFileCanHold) {
  const auto refused = [](std::vector<StoredTensor> tensors, const std::string& part) {
    expect_refusal([&] { SafetensorsHeader::of(std::move(tensors)); }, ErrorCode::invalid_argument, {part});
  };
  refused({{"a", DType::uint8, {1}}, {"a", DType::float32, {1}}}, "'a': another tensor has the same name");
  refused({{"", DType::uint8, {1}}}, "choose another name");
  refused({{"__metadata__", DType::uint8, {1}}}, "choose another name");
  refused({{"a", DType::uint8, {-1}}}, "extent");
  refused({{"a", DType::float32, {std::int64_t{1} << 61}}}, "2^63");
  refused({{"a", DType::uint8, {std::int64_t{1} << 62}}, {"b", DType::uint8, {std::int64_t{1} << 62}}}, "'b'");
  refused({{"\xff", DType::uint8, {1}}}, "UTF-8");
}

TEST(Safetensors, RefusesPartsThatDoNotCoverATensorOnce) {
  const auto header = SafetensorsHeader::of({{"a", DType::float32, {4}}, {"empty", DType::float32, {0}}});
  const auto part = [](std::int64_t first, std::int64_t count) { return WrittenPart{0, {first}, {0, {4 * count}}}; };
  EXPECT_EQ(tensor_checksums(header, {part(2, 2), part(0, 2), part(2, 0)}).at(0).bytes, Bytes{16});
  expect_refusal([&] { tensor_checksums(header, {part(0, 2)}); }, ErrorCode::mismatch, {"'a'", "no rank"});
  expect_refusal([&] { tensor_checksums(header, {part(0, 1), part(2, 2)}); }, ErrorCode::mismatch, {"no rank"});
  expect_refusal([&] { tensor_checksums(header, {part(0, 3), part(2, 2)}); }, ErrorCode::mismatch, {"more than one"});
  expect_refusal([&] { tensor_checksums(header, {part(0, 4), part(0, 4)}); }, ErrorCode::mismatch, {"more than one"});
}

TEST(Safetensors, RefusesAFileOfAnotherSizeToWriteInto) {
  const ScratchFolder folder;
  SafetensorsWriter::create(folder / "file", SafetensorsHeader::of({{"a", DType::float32, {4}}}));
  const auto other = SafetensorsHeader::of({{"a", DType::float32, {5}}});
  expect_refusal([&] { SafetensorsWriter(folder / "file", other); }, ErrorCode::corrupt, {"file", "instead of"});
}

}  // namespace
}  // namespace lockstep::state
