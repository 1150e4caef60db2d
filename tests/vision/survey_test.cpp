// SPDX-License-Identifier: Apache-2.0
#include "vision/source/survey.hpp"

#include <algorithm>

#include "vision/source/file_source.hpp"
#include "vision/user_files.hpp"

namespace lockstep::vision {
namespace {

TEST(Survey, IsATableThatNamesWhatIsWrong) {
  const UserFiles user;
  user.put_pictures({"train/cat/1.jpg", "train/cat/2.jpg", "train/dog/1.jpg", "train/dog/x.webp", "train/dog/y.webp",
                     "val/cat/1.jpg", "val/dog/1.jpg"});
  std::filesystem::create_directory(user.path("train/red panda"));
  EXPECT_EQ(text_of(open_sources({.data = user.path()}).survey),
            "Data: folder, " + user.path().string() +
                ", 3 classes\n"
                "                                 training   validation\n"
                "  samples                               3            2\n"
                "  samples of the class\n"
                "    cat                                 2            1\n"
                "    dog                                 1            1\n"
                "    red panda                           0            0\n"
                "  1 class has no training sample: red panda\n"
                "  training: WebP files, left out (convert them to JPEG or PNG): 2, first dog/x.webp\n");
}

TEST(Survey, CountsBoxes) {
  const FileSource source("voc", "/data", {"cat", "dog"},
                          {{.path = "a.jpg",
                            .annotation = {.boxes = {{.label = 1, .right = 32, .bottom = 32, .is_difficult = true},
                                                     {.label = 1, .right = 500, .bottom = 500, .area = 1023.5},
                                                     {.label = 0, .right = 96, .bottom = 96, .is_crowd = true}}}},
                           {.path = "b.jpg"}});
  PartNotes notes;
  notes.degenerate_boxes = {3, "Annotations/a.xml:7"};
  notes.without_picture = {1, "Annotations/c.xml"};
  notes.without_annotation = {2, "JPEGImages/d.jpg"};
  notes.duplicates = {1, "JPEGImages/a.jpg"};
  notes.duplicate_boxes = {1, "Annotations/a.xml:9"};
  notes.repeated_boxes = {2, "labels/a.txt:3"};
  notes.lost_boxes = {1, "labels/a.txt:4"};
  notes.wide_boxes = {5, "labels/a.txt:5"};
  notes.training_crowds = {6, "a.jpg"};
  notes.without_labels = {7, "c.jpg"};
  notes.without_header = {8, "d.jpg"};
  const Survey survey{.format = "voc",
                      .place = "/data",
                      .class_names = source.class_names(),
                      .val = survey_of(source, std::move(notes)),
                      .in_both = {4, "JPEGImages/a.jpg"}};
  EXPECT_EQ(text_of(survey),
            "Data: voc, /data, 2 classes\n"
            "                               validation\n"
            "  samples                               2\n"
            "  boxes                                 2\n"
            "    small, below 32²                    1\n"
            "    medium, below 96²                   1\n"
            "    large                               0\n"
            "    difficult                           1\n"
            "  crowds                                1\n"
            "  samples without boxes                 1\n"
            "  boxes of the class\n"
            "    cat                                 0\n"
            "    dog                                 2\n"
            "  1 class has no box: cat\n"
            "  validation: pictures without annotation, left out: 2, first JPEGImages/d.jpg\n"
            "  validation: labels without picture, left out: 1, first Annotations/c.xml\n"
            "  validation: pictures without labels, background: 7, first c.jpg\n"
            "  validation: pictures whose size cannot be read, kept without boxes: 8, first d.jpg\n"
            "  validation: boxes without area, left out: 3, first Annotations/a.xml:7\n"
            "  validation: boxes outside of their picture, left out: 1, first labels/a.txt:4\n"
            "  validation: boxes that reach beyond their picture, kept: 5, first labels/a.txt:5\n"
            "  validation: boxes annotated again, left out: 2, first labels/a.txt:3\n"
            "  validation: boxes of crowds, left out: 6, first a.jpg\n"
            "  validation: samples listed again, kept: 1, first JPEGImages/a.jpg\n"
            "  validation: boxes annotated again, kept: 1, first Annotations/a.xml:9\n"
            "  validation: samples that are training samples, too: 4, first JPEGImages/a.jpg\n");
}

TEST(Survey, LongListsOfClassesAreShortened) {
  Survey survey{.format = "list", .place = "/data", .train = PartSurvey{.samples = 12345}};
  for (int i = 0; i < 1000; ++i) {
    survey.class_names.push_back("class " + std::to_string(i));
    survey.train->class_counts.push_back(i == 500 ? 1 : i == 77 ? 0 : 13);
  }
  const std::string text = text_of(survey);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 1 + 5 + 1 + 5 + 1 + 5 + 1) << text;
  EXPECT_NE(text.find("… 990 more …"), std::string::npos) << text;
  EXPECT_NE(
      text.find("the smallest\n    class 77                            0\n    class 500                           1\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("class 999 "), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::vision
