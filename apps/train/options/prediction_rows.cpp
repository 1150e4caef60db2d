// SPDX-License-Identifier: Apache-2.0
// Options of what detectors find in the pictures of --predict.
#include "apps/train/options/rows.hpp"

namespace lockstep::train {
namespace {

using namespace cli;

std::vector<Rule> prediction_rules(const Options& o, const OptionValues& given) {
  std::vector<Rule> rules;
  for (const char* option : {"conf", "iou", "max-det", "save-txt", "save-conf"})
    rules.push_back({option, o.predict.empty() && given.has(option),
                     std::string("--") + option + " is about predictions: name pictures by --predict PATH"});
  rules.push_back({"save-conf", o.save_conf && !o.save_txt, "--save-conf needs --save-txt, to whose lines it adds"});
  return rules;
}

}  // namespace

OptionGroup prediction_options(Options& o) {
  return {"Predictions of detectors",
          {row("conf", Real{.min = 0, .max = 1}, "0.25",
               "with --predict, leave out boxes with a lower score, which is objectness times class probability",
               into(o.find.confidence)),
           row("iou", Real{.min = 0, .max = 1}, "0.45",
               "with --predict, leave out boxes that overlap a better one of their class by a larger IoU",
               into(o.find.iou)),
           row("max-det", Whole{1, 100'000}, "300", "with --predict, the most boxes of a picture", into(o.find.most)),
           row("save-txt", Switch{}, "no",
               "with --predict, write a file labels/NAME.txt for each picture: class, center x, center y, width and "
               "height of each box, as fractions of the picture, as YOLO's labels are",
               into(o.save_txt)),
           row("save-conf", Switch{}, "no", "add the score to the lines of --save-txt", into(o.save_conf))},
          [&o](const OptionValues& given) { return prediction_rules(o, given); }};
}

}  // namespace lockstep::train
