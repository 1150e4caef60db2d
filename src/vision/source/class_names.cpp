// SPDX-License-Identifier: Apache-2.0
#include "vision/source/class_names.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

/// Returns "the 12 classes of the model, cat, dog, …".
std::string list_text(const std::vector<std::string>& class_names) {
  constexpr std::size_t most_named = 10;
  std::string text = "the " + std::to_string(class_names.size()) + " classes of the model";
  for (std::size_t i = 0; i < std::min(class_names.size(), most_named); ++i) text += ", " + echo(class_names[i], 40);
  return text + (class_names.size() > most_named ? ", …" : "");
}

/// The error of a sample whose class the model does not have. @param label  that of the source
Error unknown_class(const Source& source, std::int64_t sample, std::int32_t label,
                    const std::vector<std::string>& of_model) {
  return {ErrorCode::invalid_argument, shown(source.place(sample)) + " is of the class '" +
                                           echo(source.class_names()[static_cast<std::size_t>(label)], 40) +
                                           "', which is none of " + list_text(of_model) +
                                           "; leave it out, or give its class the name that the model knows"};
}

/// A source with other labels.
class RenamedSource final : public Source {
 public:
  /// @param labels  of the source's classes; −1 for those that are not known
  RenamedSource(std::shared_ptr<const Source> source, std::vector<std::string> class_names,
                std::vector<std::int64_t> category_ids, std::vector<Annotation> annotations,
                std::vector<std::int32_t> labels)
      : source_(std::move(source)),
        class_names_(std::move(class_names)),
        category_ids_(std::move(category_ids)),
        annotations_(std::move(annotations)),
        labels_(std::move(labels)) {}

  [[nodiscard]] std::string format() const override { return source_->format(); }
  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] const std::vector<std::int64_t>& category_ids() const override { return category_ids_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override {
    return annotations_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return source_->place(sample); }
  [[nodiscard]] std::string relative_place(std::int64_t sample) const override {
    return source_->relative_place(sample);
  }
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t sample) const override { return source_->stored_bytes(sample); }
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override { source_->read(sample, bytes); }
  void decode(std::int64_t sample, std::span<const std::byte> bytes, const DecodeOptions& options,
              Image& picture) const override {
    source_->decode(sample, bytes, options, picture);
  }
  void read_mask(std::int64_t sample, std::vector<std::byte>& bytes, Image& mask) const override {
    source_->read_mask(sample, bytes, mask);
    for (std::uint8_t& pixel : mask.pixels) {
      if (pixel == left_out_pixel) continue;
      if (labels_[pixel] < 0) throw unknown_class(*source_, sample, pixel, class_names_);
      pixel = static_cast<std::uint8_t>(labels_[pixel]);
    }
  }

 private:
  std::shared_ptr<const Source> source_;
  std::vector<std::string> class_names_;
  std::vector<std::int64_t> category_ids_;
  std::vector<Annotation> annotations_;
  std::vector<std::int32_t> labels_;
};

bool are_numbers(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] != std::to_string(i)) return false;
  return true;
}

/// Returns the model's label of each class of a source; −1 for a class that the model does not have.
std::vector<std::int32_t> labels_in(const std::vector<std::string>& class_names, const std::vector<std::string>& own) {
  std::vector<std::int32_t> labels;
  for (const std::string& name : own) {
    const auto found = std::find(class_names.begin(), class_names.end(), name);
    labels.push_back(found == class_names.end() ? -1 : static_cast<std::int32_t>(found - class_names.begin()));
  }
  const bool all_are_known = std::find(labels.begin(), labels.end(), -1) == labels.end();
  if (all_are_known || !are_numbers(own)) return labels;
  for (std::size_t i = 0; i < own.size(); ++i) labels[i] = i < class_names.size() ? static_cast<std::int32_t>(i) : -1;
  return labels;
}

/// Returns the numbers that a source has for the classes of a model, by the model's label; −1 for a class that the
/// source does not have.
std::vector<std::int64_t> category_ids_of(const Source& source, const std::vector<std::int32_t>& labels,
                                          std::size_t classes) {
  const std::vector<std::int64_t>& own = source.category_ids();
  std::vector<std::int64_t> ids(own.empty() ? 0 : classes, -1);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (labels[i] >= 0) ids[static_cast<std::size_t>(labels[i])] = own[i];
  return ids;
}

}  // namespace

std::shared_ptr<const Source> with_class_names(std::shared_ptr<const Source> source,
                                               const std::vector<std::string>& class_names) {
  const std::vector<std::string>& own = source->class_names();
  if (own == class_names) return source;
  const std::vector<std::int32_t> labels = labels_in(class_names, own);
  std::vector<Annotation> annotations;
  for (std::int64_t sample = 0; sample < source->size(); ++sample) {
    Annotation annotation = source->annotation(sample);
    const auto label_of = [&](std::int32_t label) {
      const std::int32_t of_model = labels[static_cast<std::size_t>(label)];
      if (of_model < 0) throw unknown_class(*source, sample, label, class_names);
      return of_model;
    };
    if (annotation.label >= 0) annotation.label = label_of(annotation.label);
    for (Box& box : annotation.boxes) box.label = label_of(box.label);
    annotations.push_back(std::move(annotation));
  }
  std::vector<std::int64_t> ids = category_ids_of(*source, labels, class_names.size());
  return std::make_shared<RenamedSource>(std::move(source), class_names, std::move(ids), std::move(annotations),
                                         labels);
}

}  // namespace lockstep::vision
