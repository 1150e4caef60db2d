// SPDX-License-Identifier: Apache-2.0
#include "vision/source/survey.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "vision/source/characters.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

constexpr std::size_t most_classes = 20;  // listed in full
constexpr std::size_t each_end = 5;       // of a longer list

/// A row of the table: a name, and a number for each part.
std::string row_of(const Survey& survey, const std::string& name,
                   std::int64_t (*number)(const PartSurvey&, std::size_t), std::size_t label = 0) {
  constexpr std::size_t name_columns = 28;
  std::string row = padded("  " + name, name_columns);
  for (const auto& part : {&survey.train, &survey.val})
    if (*part) row += format_text("%13lld", static_cast<long long>(number(**part, label)));
  return row + '\n';
}

std::string class_row(const Survey& survey, std::size_t label) {
  return row_of(
      survey, "  " + echo(survey.class_names[label], 24),
      [](const PartSurvey& part, std::size_t of) { return part.class_counts[of]; }, label);
}

std::string heading(const Survey& survey) {
  const std::size_t classes = survey.class_names.size();
  std::string text = "Data: " + survey.format + ", " + shown(survey.place) + ", " + std::to_string(classes) +
                     (classes == 1 ? " class\n" : " classes\n") + padded("", 28);
  if (survey.train) text += format_text("%13s", "training");
  if (survey.val) text += format_text("%13s", "validation");
  return text + '\n';
}

const PartSurvey& main_part(const Survey& survey) { return survey.train ? *survey.train : *survey.val; }

bool has_boxes(const Survey& survey) {
  return (survey.train && survey.train->boxes > 0) || (survey.val && survey.val->boxes > 0);
}

bool has_masks(const Survey& survey) { return main_part(survey).masks > 0; }

bool has_texts(const Survey& survey) { return main_part(survey).texts > 0; }

/// The names of classes whose pixels are not counted.
std::string names_text(const Survey& survey) {
  std::string text = "  classes of pixels:";
  for (std::size_t label = 0; label < survey.class_names.size(); ++label)
    text += (label == 0 ? " " : ", ") + echo(survey.class_names[label], 24);
  return wrapped(text, 100) + '\n';
}

std::string classes_text(const Survey& survey) {
  if (has_masks(survey)) return names_text(survey);
  const std::size_t classes = survey.class_names.size();
  const bool is_long = classes > most_classes;
  std::string text = has_boxes(survey)   ? "  boxes of the class\n"
                     : has_texts(survey) ? "  characters of the class\n"
                                         : "  samples of the class\n";
  for (std::size_t label = 0; label < (is_long ? each_end : classes); ++label) text += class_row(survey, label);
  if (!is_long) return text;
  text += "    … " + std::to_string(classes - 2 * each_end) + " more …\n";
  for (std::size_t label = classes - each_end; label < classes; ++label) text += class_row(survey, label);
  const std::vector<std::int64_t>& counts = main_part(survey).class_counts;
  std::vector<std::size_t> order(classes);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return counts[a] < counts[b]; });
  text += "  the smallest\n";
  for (std::size_t i = 0; i < each_end; ++i) text += class_row(survey, order[i]);
  return text;
}

std::string empty_classes_text(const Survey& survey) {
  if (has_masks(survey)) return "";
  const std::vector<std::int64_t>& counts = main_part(survey).class_counts;
  Finding empty;
  for (std::size_t label = 0; label < counts.size(); ++label)
    if (counts[label] == 0) empty.add(survey.class_names[label]);
  if (empty.count == 0) return "";
  return "  " + std::to_string(empty.count) + (empty.count == 1 ? " class has" : " classes have") + " no " +
         (survey.train ? "training " : "") +
         (has_boxes(survey)   ? "box: "
          : has_texts(survey) ? "text: "
                              : "sample: ") +
         echo(empty.first, 40) + (empty.count == 1 ? "\n" : ", …\n");
}

std::string finding_text(const std::string& part, const Finding& finding, const std::string& what) {
  if (finding.count == 0) return "";
  return "  " + part + ": " + what + ": " + std::to_string(finding.count) + ", first " + shown(finding.first) + '\n';
}

/// The rows about boxes. Those that few data have, appear where there is something to count.
std::string boxes_text(const Survey& survey) {
  const auto has_any = [&](std::int64_t PartSurvey::*count) {
    return (survey.train && *survey.train.*count > 0) || (survey.val && *survey.val.*count > 0);
  };
  std::string text = row_of(survey, "boxes", [](const PartSurvey& part, std::size_t) { return part.boxes; });
  const std::array<const char*, 3> names = {"  small, below 32²", "  medium, below 96²", "  large"};
  for (std::size_t size = 0; size < names.size(); ++size)
    text += row_of(
        survey, names[size], [](const PartSurvey& part, std::size_t of) { return part.sizes[of]; }, size);
  if (has_any(&PartSurvey::difficult))
    text += row_of(survey, "  difficult", [](const PartSurvey& part, std::size_t) { return part.difficult; });
  if (has_any(&PartSurvey::crowds))
    text += row_of(survey, "crowds", [](const PartSurvey& part, std::size_t) { return part.crowds; });
  return text + row_of(survey, "samples without boxes",
                       [](const PartSurvey& part, std::size_t) { return part.without_boxes; });
}

/// Names the characters that were left out most often.
std::string unknown_characters_text(const std::string& part, const PartNotes& notes) {
  constexpr std::size_t most_shown = 8;
  std::vector<std::pair<std::string, const Finding*>> characters;
  std::int64_t all = 0;
  for (const auto& [character, finding] : notes.unknown_characters) {
    characters.emplace_back(character, &finding);
    all += finding.count;
  }
  if (all == 0) return "";
  std::ranges::stable_sort(characters, [](const auto& a, const auto& b) { return a.second->count > b.second->count; });
  std::string text =
      "  " + part + ": characters that the dictionary lacks, left out of their texts (--dict): " + std::to_string(all) +
      ", of " + std::to_string(characters.size()) + " kinds:";
  for (std::size_t i = 0; i < std::min(characters.size(), most_shown); ++i)
    text += (i == 0 ? " '" : ", '") + echo(characters[i].first) + "' " + std::to_string(characters[i].second->count) +
            " (first " + shown(characters[i].second->first) + ')';
  return wrapped(text + (characters.size() > most_shown ? ", …" : ""), 100, 4);
}

std::string notes_text(const std::string& part, const PartNotes& notes) {
  std::string text;
  for (const auto& [kind, finding] : notes.refused)
    text += finding_text(part, finding, kind + " files, left out (convert them to JPEG or PNG)");
  return text + finding_text(part, notes.without_annotation, "pictures without annotation, left out") +
         finding_text(part, notes.without_picture, "labels without picture, left out") +
         finding_text(part, notes.without_labels, "pictures without labels, background") +
         finding_text(part, notes.empty_texts, "texts without a character of the dictionary, left out") +
         finding_text(part, notes.long_texts, "texts that are too long, left out (--max-text)") +
         unknown_characters_text(part, notes) +
         finding_text(part, notes.without_header, "pictures whose size cannot be read, kept without boxes") +
         finding_text(part, notes.degenerate_boxes, "boxes without area, left out") +
         finding_text(part, notes.lost_boxes, "boxes outside of their picture, left out") +
         finding_text(part, notes.wide_boxes, "boxes that reach beyond their picture, kept") +
         finding_text(part, notes.repeated_boxes, "boxes annotated again, left out") +
         finding_text(part, notes.training_crowds, "boxes of crowds, left out") +
         finding_text(part, notes.duplicates, "samples listed again, kept") +
         finding_text(part, notes.duplicate_boxes, "boxes annotated again, kept");
}

void count(std::string_view text, const CharacterLabels& labels, PartSurvey& part) {
  ++part.texts;
  for (std::string_view character = next_character(text); !character.empty(); character = next_character(text))
    if (const std::int32_t label = labels.label(character); label >= 0)
      ++part.class_counts[static_cast<std::size_t>(label)];
}

void count(const Box& box, PartSurvey& part) {
  ++part.class_counts[static_cast<std::size_t>(box.label)];
  const double area = area_of(box);
  ++part.sizes[area < medium_area ? 0 : area < large_area ? 1 : 2];
  part.difficult += box.is_difficult ? 1 : 0;
}

}  // namespace

PartSurvey survey_of(const Source& part, PartNotes notes) {
  PartSurvey result{.samples = part.size(),
                    .class_counts = std::vector<std::int64_t>(part.class_names().size()),
                    .notes = std::move(notes)};
  const CharacterLabels labels(part.class_names());
  for (std::int64_t sample = 0; sample < part.size(); ++sample) {
    const Annotation& annotation = part.annotation(sample);
    if (!annotation.text.empty()) count(annotation.text, labels, result);
    if (annotation.label >= 0) ++result.class_counts[static_cast<std::size_t>(annotation.label)];
    std::int64_t boxes = 0;
    for (const Box& box : annotation.boxes) {
      (box.is_crowd ? result.crowds : boxes) += 1;
      if (!box.is_crowd) count(box, result);
    }
    result.boxes += boxes;
    result.masks += annotation.mask_file.empty() ? 0 : 1;
    result.without_boxes += annotation.label < 0 && boxes == 0 ? 1 : 0;
  }
  return result;
}

std::string text_of(const Survey& survey) {
  std::string text = heading(survey);
  text += row_of(survey, "samples", [](const PartSurvey& part, std::size_t) { return part.samples; });
  if (has_boxes(survey)) text += boxes_text(survey);
  text += classes_text(survey) + empty_classes_text(survey);
  if (survey.train) text += notes_text("training", survey.train->notes);
  if (survey.val) text += notes_text("validation", survey.val->notes);
  return text + finding_text("validation", survey.in_both, "samples that are training samples, too");
}

}  // namespace lockstep::vision
