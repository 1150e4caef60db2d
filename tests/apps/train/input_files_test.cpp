// SPDX-License-Identifier: Apache-2.0
#include "apps/train/train_program.hpp"
#include "base/nearest.hpp"

namespace lockstep::train {
namespace {

void expect_bad_data(const SmallDigits& digits, const std::vector<std::string>& parts) {
  const auto result = run_train(2, digits.arguments() + " --steps 1");
  expect_refused(result, 1, parts);
  EXPECT_EQ(occurrences(result.output, "images/s"), 0) << "nothing is trained\n" << result.output;
}

/// CIFAR-10's six files, with a few records each.
class SmallCifar {
 public:
  SmallCifar() {
    for (int batch = 1; batch <= 5; ++batch)
      data::write_plain(file("data_batch_" + std::to_string(batch) + ".bin"), records(8));
    data::write_plain(file("test_batch.bin"), records(8));
  }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return directory_.path() / name; }
  [[nodiscard]] std::string arguments() const {
    return "--dataset cifar10 --model resnet20 --data-dir " + directory_.path().string();
  }
  void expect_bad(const std::vector<std::string>& parts) const {
    const auto result = run_train(2, arguments() + " --steps 1");
    expect_refused(result, 1, parts);
    EXPECT_EQ(occurrences(result.output, "images/s"), 0) << "nothing is trained\n" << result.output;
  }

 private:
  static std::string records(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      bytes += static_cast<char>(i);
      for (int pixel = 0; pixel < 3 * 32 * 32; ++pixel) bytes += static_cast<char>((pixel + 40 * i) % 251);
    }
    return bytes;
  }

  data::TemporaryDirectory directory_;
};

void cut(const std::filesystem::path& file, std::uintmax_t bytes) { std::filesystem::resize_file(file, bytes); }

TEST(InputFiles, AFolderThatDoesNotExist) {
  expect_refused(run_train(2, "--dataset mnist --data-dir /missing/folder"), 1, {"/missing/folder does not exist"});
}

TEST(InputFiles, MissingFile) {
  const SmallDigits digits;
  std::filesystem::remove(digits.file("t10k-labels-idx1-ubyte"));
  expect_bad_data(digits, {digits.path("t10k-labels-idx1-ubyte") + " does not exist"});
}

TEST(InputFiles, TruncatedData) {
  const SmallDigits digits;
  cut(digits.file("train-images-idx3-ubyte"), 1000);
  expect_bad_data(digits, {digits.path("train-images-idx3-ubyte") + " is truncated: 6144 bytes of data expected, 984"});
}

TEST(InputFiles, TruncatedHeader) {
  const SmallDigits digits;
  cut(digits.file("train-images-idx3-ubyte"), 10);
  expect_bad_data(digits, {" is truncated: 16 bytes of header expected, 10 found"});
}

TEST(InputFiles, TruncatedGzipStream) {
  const SmallDigits digits;
  const auto plain = digits.file("train-images-idx3-ubyte");
  const auto packed = digits.file("train-images-idx3-ubyte.gz");
  data::write_gzip(packed, data::read_all(plain));
  std::filesystem::remove(plain);
  cut(packed, std::filesystem::file_size(packed) / 2);
  expect_bad_data(digits, {packed.string() + " is truncated: its gzip stream ends too early"});
}

TEST(InputFiles, EmptyFile) {
  const SmallDigits digits;
  cut(digits.file("t10k-images-idx3-ubyte"), 0);
  expect_bad_data(digits, {digits.path("t10k-images-idx3-ubyte") + " is empty"});
}

TEST(InputFiles, LabelsUnderTheNameOfImages) {
  const SmallDigits digits;
  std::filesystem::copy_file(digits.file("train-labels-idx1-ubyte"), digits.file("train-images-idx3-ubyte"),
                             std::filesystem::copy_options::overwrite_existing);
  expect_bad_data(digits, {digits.path("train-images-idx3-ubyte") + " holds labels where images are expected"});
}

TEST(InputFiles, SomethingElseUnderTheNameOfImages) {
  const SmallDigits digits;
  data::write_plain(digits.file("train-images-idx3-ubyte"), "<html>not found</html>");
  expect_bad_data(digits, {digits.path("train-images-idx3-ubyte") + " is not an IDX file"});
}

TEST(InputFiles, CountsOfImagesAndLabelsThatDiffer) {
  const SmallDigits digits;
  digits.write_labels("train", SmallDigits::train_size - 1);
  expect_bad_data(digits, {"holds 96 images but ", "holds 95 labels; they do not belong together"});
}

TEST(InputFiles, OneLabelFarFromTheOthersIsTakenForDamage) {
  const SmallDigits digits;
  std::string bytes = data::read_all(digits.file("train-labels-idx1-ubyte"));
  bytes[8 + 17] = '\xff';
  data::write_plain(digits.file("train-labels-idx1-ubyte"), bytes);
  expect_bad_data(digits, {digits.path("train-labels-idx1-ubyte") +
                           " has a label 255 (first of image 17), which makes 256 classes, but only 11 of them"});
}

/// Trains on two ranks, each with its own files.
testing_support::ProgramResult train_with(const SmallDigits& one, const SmallDigits& other) {
  return testing_support::run_program(train_command(1, one.arguments() + " --steps 1 --batch 8") + " : -np 1 " +
                                      LOCKSTEP_TRAIN + other.arguments() + " --steps 1 --batch 8 --save-dir none 2>&1");
}

TEST(InputFiles, ThatAreAlikeMayLieInDifferentFolders) {
  const SmallDigits one;
  const SmallDigits other;
  const auto result = train_with(one, other);
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST(InputFiles, WithOtherLabelsOnOneRankAreNamed) {
  const SmallDigits one;
  const SmallDigits other;
  std::string bytes = data::read_all(other.file("train-labels-idx1-ubyte"));
  std::swap(bytes[8 + 3], bytes[8 + 4]);
  data::write_plain(other.file("train-labels-idx1-ubyte"), bytes);
  const auto result = train_with(one, other);
  expect_refused(result, 1, {"mismatch: rank 0 on ", "rank 1 on ", "give all ranks the same files (--data-dir)"});
  EXPECT_EQ(occurrences(result.output, " has training annotations with hash "), 2) << result.output;
  EXPECT_EQ(occurrences(result.output, " stored bytes of "), 0) << result.output;
}

TEST(InputFiles, WithAnotherPixelOnOneRankAreNamed) {
  const SmallDigits one;
  const SmallDigits other;
  std::string bytes = data::read_all(other.file("t10k-images-idx3-ubyte"));
  bytes[100] = static_cast<char>(bytes[100] + 1);
  data::write_plain(other.file("t10k-images-idx3-ubyte"), bytes);
  const auto result = train_with(one, other);
  expect_refused(result, 1, {"mismatch: rank 0 on ", "rank 1 on "});
  EXPECT_EQ(occurrences(result.output, " has test stored bytes of "), 2) << result.output;
  EXPECT_EQ(occurrences(result.output, " annotations with hash "), 0) << result.output;
}

TEST(InputFiles, CifarIsTrainedOn) {
  const auto result = run_train(2, SmallCifar().arguments() + " --steps 1 --batch 8");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "resnet20 on cifar10 (40 training and 8 test samples, 10 classes)"), 1)
      << result.output;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose address spaces are terabytes
/// Runs one process with a limited address space, in kilobytes.
ProgramResult train_within(int kilobytes, const std::string& arguments) {
  return testing_support::run_program("ulimit -v " + std::to_string(kilobytes) + "; " + LOCKSTEP_TRAIN + arguments +
                                      " 2>&1");
}

TEST(Memory, ThatABatchLacksIsSaidWithWhatAskedForIt) {
  const auto result = train_within(1'500'000, " --threads 1 --batch 12000 --steps 1");
  expect_refused(
      result, 1,
      {"train: rank 0 on ", "not enough memory for 12000 samples at a time of --model lenet (--batch 12000"});
}

TEST(Memory, ThatAFileLacksIsSaidWithItsName) {
  const SmallDigits digits;
  data::write_plain(digits.file("train-images-idx3-ubyte"), data::idx_bytes({1'000'000'000, 8, 8}, ""));
  std::filesystem::resize_file(digits.file("train-images-idx3-ubyte"), 16 + 64'000'000'000);  // data are a hole
  const auto result = train_within(1'000'000, digits.arguments() + " --steps 1 --threads 1");
  expect_refused(result, 1,
                 {": io: " + digits.path("train-images-idx3-ubyte") +
                  " holds 64000000000 bytes of data, for which there is not enough memory"});
}
#endif

TEST(InputFiles, MissingFileOfCifar) {
  const SmallCifar images;
  std::filesystem::remove(images.file("data_batch_4.bin"));
  images.expect_bad({images.file("data_batch_4.bin").string() + ": No such file", "give the folder that holds"});
}

TEST(InputFiles, CutFileOfCifar) {
  const SmallCifar images;
  cut(images.file("test_batch.bin"), 3072);
  images.expect_bad({images.file("test_batch.bin").string() + " has 3072 bytes"});
}

TEST(InputFiles, LabelThatCifarHasNot) {
  const SmallCifar images;
  std::string bytes = data::read_all(images.file("data_batch_1.bin"));
  bytes[3073] = 11;
  data::write_plain(images.file("data_batch_1.bin"), bytes);
  images.expect_bad({images.file("data_batch_1.bin").string() + " has a label 11 at byte 3073"});
}

/// A file of one tensor of this name, which is JSON.
std::string safetensors_bytes(const std::string& name) {
  const std::string header = "{" + name + R"(: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})";
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes + header + std::string(4, '\0');
}

/// Names and contents that would command a terminal, end a line early, or fill the screen if a message quoted them as
/// they are.
TEST(Messages, ArePlainAndShortWhateverNamesAndFilesContain) {
  const std::string evil = "\x1b]0;x\a\x1b[2J\r\x7f\xc2\x9b\xff\xe2\x80\xae" + std::string(150, 'y');
  const std::string evil_json = R"("\u001b]0;x\u0007\u001b[2J\r\n\u009b\u202e)" + std::string(50'000, 'y') + '"';
  const SmallDigits digits;
  const auto file = [&](const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(digits.file(name).parent_path());
    data::write_plain(digits.file(name), bytes);
    return " '" + digits.path(name) + "'";
  };
  const std::string evil_file = file(evil, evil);
  const std::string weights = file("weights", safetensors_bytes(evil_json));
  file("run/checkpoints/step-1/state.json",
       R"({"format": "lockstep checkpoint", "version": 1, "revision": 0, "sections": {)" + evil_json + ": {}}, " +
           evil_json + ": 1}");
  const std::string train = digits.arguments() + " --steps 1 --batch 8";
  const std::vector<std::string> cases = {
      " --dataset mnist --steps 1 --data-dir" + evil_file,
      " --dataset mnist --steps 1 --data-dir '/" + evil + "'",
      " --dataset '" + evil + "'",
      " --model '" + evil + "'",
      " '--" + evil + "' 1",
      " '" + evil + std::string(100'000, 'y') + "'",
      " --config" + evil_file,
      " --config" +
          file("config", "lr = \x1b[2J" + std::string(10'000, 'y') + "\n" + evil + " = 1\nmodel: " + evil + '\n'),
      train + " --metrics '/" + evil + "/x'",
      train + " --kernels" + evil_file,
      train + " --kernels" + file("kernels", "lockstep kernel choices, version 2\non x\n" + evil + " a b c d e\n"),
      train + " --weights" + evil_file,
      train + " --weights" + weights,
      train + " --weights" + weights + " --partial-weights",
      train + " --weights" + file("other_weights", safetensors_bytes("\"c1.weight\": 0, " + evil_json)),
      train + " --resume" + evil_file,
      train + " --resume '" + digits.path("run/checkpoints/step-1") + "'",
  };
  for (const std::string& arguments : cases) {
    const auto result = testing_support::run_program(std::string(LOCKSTEP_TRAIN) + arguments + " --save-dir none 2>&1");
    const std::string start = echo(arguments, 200);
    EXPECT_NE(result.exit_code, 0) << start;
    EXPECT_EQ(echo_lines(result.output), result.output) << start;
    EXPECT_LT(result.output.size(), 15'000U) << start;
    EXPECT_EQ(occurrences(result.output, "train: "), 1) << start << '\n' << result.output;
  }
  const auto differ =
      testing_support::run_program(train_command(1, train + " --metrics '/" + evil + "1'") + " : -np 1 " +
                                   LOCKSTEP_TRAIN + train + " --save-dir none --metrics '/" + evil + "2' 2>&1");
  EXPECT_EQ(echo_lines(differ.output), differ.output);
  EXPECT_EQ(occurrences(differ.output, "rank 0 writes one file for all ranks"), 1) << differ.output;
}

}  // namespace
}  // namespace lockstep::train
