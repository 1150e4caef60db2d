// SPDX-License-Identifier: Apache-2.0
// Which format data have, the formats of pixels, and what a source says about a file at fault.
#include <cstring>

#include "support/errors.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

TEST(Formats, AnUnknownFolderIsToldWhatWasLookedForAndFound) {
  const UserFiles user;
  user.put("notes/readme.md", "x");
  user.put("a.csv", "x");
  expect_error(
      [&] { (void)open_sources({.data = user.path()}); }, ErrorCode::invalid_argument,
      {"no format is recognized in " + user.path().string(), "which holds 1 folder (notes) and 1 file (a.csv)",
       "mnist needs the files train-images-idx3-ubyte", "cifar10 needs the files data_batch_1.bin",
       "voc needs the folders JPEGImages and Annotations, but it has no folder JPEGImages",
       "yolo needs a file such as data.yaml", "but it has no data.yaml and no folder images",
       "coco needs annotations/*.json", "but it has no file annotations/*.json", "list needs train_list.txt",
       "but it has no file train_list.txt, val_list.txt or test_list.txt",
       "folder needs train/CLASS and val/CLASS or test/CLASS with pictures", "but it has no folders with pictures"});
  expect_error([&] { (void)open_sources({.data = user.path("a.csv")}); }, ErrorCode::invalid_argument,
               {"no format is recognized in " + user.path("a.csv").string(),
                "but it has a first line that is no path and number of a class", "but it is not a folder"});
}

TEST(Formats, ANamedFormatSaysWhatIsMissing) {
  const UserFiles user;
  user.put_pictures({"JPEGImages/a.jpg"});
  expect_error([&] { (void)open_sources({.data = user.path(), .format = "voc"}); }, ErrorCode::invalid_argument,
               {user.path().string() + " is not of the format voc", "it has no folder Annotations"});
  expect_error([&] { (void)open_sources({.data = user.path(), .format = "folders"}); }, ErrorCode::invalid_argument,
               {"there is no data format 'folders'", "did you mean 'folder'?"});
  EXPECT_EQ(format_names(), (std::vector<std::string_view>{"mnist", "cifar10", "voc", "yolo", "coco", "rec_gt", "masks",
                                                           "list", "folder", "lmdb"}));
}

TEST(Formats, DataThatCannotBeReadAreNotUnknown) {
  const UserFiles user;
  expect_error([&] { (void)open_sources({.data = user.path("nowhere")}); }, ErrorCode::io,
               {user.path("nowhere").string() + " does not exist"});
  expect_error([&] { (void)open_sources({}); }, ErrorCode::invalid_argument, {"give a folder or a file"});
  fs::create_symlink("loop", user.path("loop"));
  expect_error([&] { (void)open_sources({.data = user.path("loop")}); }, ErrorCode::io,
               {"cannot be read: Too many levels of symbolic links"});
}

TEST(Formats, PicturesWithAnnotationsAreNoClasses) {
  for (const char* annotations : {"labels", "annotations"}) {
    const UserFiles user;
    user.put_pictures({"images/train/a.jpg", "images/val/b.jpg", std::string(annotations) + "/train/a.png"});
    expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::invalid_argument,
                 {"its folders images and " + std::string(annotations) + " look like pictures with annotations"});
  }
  const UserFiles user;  // as Roboflow exports them
  user.put_pictures({"train/images/a.jpg", "valid/images/a.jpg"});
  user.put("train/labels/a.txt", "0 0.5 0.5 1 1");
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::invalid_argument,
               {"of its folder train: its folders images and labels look like"});
}

TEST(Formats, AListBesideFoldersIsTheLaw) {
  const UserFiles user;
  user.put_pictures({"train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.jpg", "val/dog/1.jpg"});
  EXPECT_EQ(open_sources({.data = user.path()}).survey.format, "folder");
  user.put("train_list.txt", "train/cat/1.jpg 0\ntrain/dog/1.jpg 1\n");
  user.put("val_list.txt", "val/dog/1.jpg 1\n");
  EXPECT_EQ(open_sources({.data = user.path()}).survey.format, "list");
  EXPECT_EQ(open_sources({.data = user.path(), .format = "folder"}).survey.format, "folder");
}

/// Pixels of a sample, channels side by side.
std::vector<int> pixels_of(const Source& source, std::int64_t sample, int channels) {
  std::vector<std::byte> bytes;
  source.read(sample, bytes);
  Image picture;
  source.decode(sample, bytes, {.channels = channels}, picture);
  return {picture.pixels.begin(), picture.pixels.end()};
}

void put_mnist(const UserFiles& user) {
  user.put("train-images-idx3-ubyte", data::idx_bytes({3, 1, 2}, "abcdef"));
  user.put("train-labels-idx1-ubyte", data::idx_bytes({3}, std::string("\0\1\2", 3)));
  user.put("t10k-images-idx3-ubyte", data::idx_bytes({1, 1, 2}, "gh"));
  user.put("t10k-labels-idx1-ubyte", data::idx_bytes({1}, std::string("\1", 1)));
}

TEST(PixelFormats, MnistHasTenNamedClassesAndGrayPictures) {
  const UserFiles user;
  put_mnist(user);
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.survey.format, "mnist");
  EXPECT_EQ(sources.train->class_names().size(), 10U);
  EXPECT_EQ(sources.train->place(2), user.path("train-images-idx3-ubyte").string() + ", image 2");
  EXPECT_EQ(sources.train->relative_place(2), "train-images-idx3-ubyte, image 2");
  EXPECT_EQ(pixels_of(*sources.train, 1, 0), (std::vector<int>{'c', 'd'}));
  EXPECT_EQ(pixels_of(*sources.train, 1, 1), (std::vector<int>{'c', 'd'}));
  EXPECT_EQ(pixels_of(*sources.train, 1, 3), (std::vector<int>{'c', 'c', 'c', 'd', 'd', 'd'}));
  EXPECT_EQ(sources.val->annotation(0).label, 1);
  expect_error([&] { (void)open_sources({.data = user.path(), .val_split = 0.1}); }, ErrorCode::invalid_argument,
               {"has a validation part of its own"});
}

TEST(PixelFormats, ALabelThatIsNoClassNamesItsFileAndImage) {
  const UserFiles user;
  put_mnist(user);
  user.put("t10k-labels-idx1-ubyte", data::idx_bytes({1}, "\x0c"));
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::corrupt,
               {user.path("t10k-labels-idx1-ubyte").string() + " has a label 12 (first of image 0)"});
  std::string names;
  for (int i = 0; i < 13; ++i) names += std::string(1, static_cast<char>('a' + i)) + '\n';
  user.put("classes.txt", names);
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.val->class_names()[12], "m");
}

TEST(PixelFormats, TheTestPartOfMnistCanBeEvaluatedAlone) {
  const UserFiles user;
  put_mnist(user);
  fs::remove(user.path("train-images-idx3-ubyte"));
  fs::remove(user.path("train-labels-idx1-ubyte"));
  const Sources sources = open_sources({.data = user.path(), .evaluates_only = true});
  EXPECT_EQ(sources.train, nullptr);
  EXPECT_EQ(sources.val->size(), 1);
  expect_error([&] { (void)open_sources({.data = user.path()}); }, ErrorCode::io,
               {"train-images-idx3-ubyte does not exist"});
}

std::string cifar_record(int label, int first_red) {
  std::string record(3073, '\0');
  record[0] = static_cast<char>(label);
  record[1] = static_cast<char>(first_red);
  record[1 + 1024] = 20;
  record[1 + 2048] = 30;
  return record;
}

TEST(PixelFormats, Cifar10HasItsNamesAndColorsSideBySide) {
  const UserFiles user;
  for (int batch = 1; batch <= 5; ++batch)
    user.put("cifar-10-batches-bin/data_batch_" + std::to_string(batch) + ".bin",
             cifar_record(batch, 10 * batch) + cifar_record(0, 1));
  user.put("cifar-10-batches-bin/test_batch.bin", cifar_record(9, 99));
  const Sources sources = open_sources({.data = user.path()});
  EXPECT_EQ(sources.survey.format, "cifar10");
  EXPECT_EQ(sources.train->size(), 10);
  EXPECT_EQ(sources.train->class_names()[3], "cat");
  EXPECT_EQ(sources.train->relative_place(5), "data_batch_3.bin, image 1");
  const std::vector<int> pixels = pixels_of(*sources.train, 4, 3);
  EXPECT_EQ((std::vector<int>{pixels[0], pixels[1], pixels[2], pixels[3]}), (std::vector<int>{30, 20, 30, 0}));
  EXPECT_EQ(pixels_of(*sources.train, 4, 1).size(), 1024U);
  EXPECT_EQ(sources.val->annotation(0).label, 9);
  user.put("cifar-10-batches-bin/batches.meta.txt", "a\nb\nc\nx\ne\nf\ng\nh\ni\nj\n");
  EXPECT_EQ(open_sources({.data = user.path()}).train->class_names()[3], "x");
}

TEST(Decoding, NamesTheFileAndWhatIsWrong) {
  const UserFiles user;
  Image picture;
  picture.resize(4, 3, 3);
  const std::vector<std::byte> png = encode_png(picture);
  const std::string whole(reinterpret_cast<const char*>(png.data()), png.size());
  user.put("cat/good.jpg", whole);  // the contents decide
  user.put("cat/cut.png", whole.substr(0, whole.size() / 2));
  user.put("cat/empty.png", "");
  user.put("cat/text.png", "this is no picture");
  user.put("dog/webp.jpg", std::string("RIFF\x10\0\0\0WEBPVP8 ", 16));
  const Sources sources = open_sources({.data = user.path(), .evaluates_only = true});
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < sources.val->size(); ++i) {
    sources.val->read(i, bytes);
    const auto decode_it = [&] { sources.val->decode(i, bytes, {}, picture); };
    const std::string place = sources.val->place(i);
    if (place.ends_with("good.jpg")) {
      EXPECT_NO_THROW(decode_it());
    } else {
      expect_error(decode_it, ErrorCode::corrupt, {place});
    }
    if (place.ends_with("webp.jpg")) expect_error(decode_it, ErrorCode::corrupt, {"WebP", "JPEG or PNG"});
    if (place.ends_with("empty.png")) expect_error(decode_it, ErrorCode::corrupt, {"empty"});
  }
  fs::remove(user.path("cat/good.jpg"));
  expect_error(
      [&] {
        for (std::int64_t i = 0; i < sources.val->size(); ++i) sources.val->read(i, bytes);
      },
      ErrorCode::io, {user.path("cat/good.jpg").string() + " does not exist"});
}

}  // namespace
}  // namespace lockstep::vision
