// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/coco_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"
#include "vision/formats/counted_input.hpp"
#include "vision/formats/text_lines.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

/// The lists of the file that are read, in the order of `coco_lists`.
enum class CocoList : std::uint8_t { images, annotations, categories, none };
constexpr std::array<std::string_view, 3> coco_lists = {"images", "annotations", "categories"};

/// The members of their entries that are read, in the order of `coco_members`.
enum class CocoMember : std::uint8_t {
  id,
  image_id,
  category_id,
  width,
  height,
  area,
  iscrowd,
  file_name,
  name,
  bbox,
  none
};
constexpr std::array<std::string_view, 10> coco_members = {"id",   "image_id", "category_id", "width", "height",
                                                           "area", "iscrowd",  "file_name",   "name",  "bbox"};

template <typename Enum, std::size_t N>
Enum coco_name(const std::array<std::string_view, N>& names, std::string_view name) {
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

/// An entry of a list, as far as it has been read.
struct CocoEntry {
  std::array<std::optional<double>, 7> numbers;  ///< by member, up to iscrowd
  std::array<std::optional<std::int64_t>, 3> ids;
  std::optional<std::string> text;  ///< file_name or name
  std::array<double, 4> box{};
  std::size_t box_numbers = 0;
};

/// Takes what the parser meets. Depths: 1 is inside the file's object, 2 inside a list, 3 inside an entry, 4 inside one
/// of its members.
class CocoReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  CocoReader(const CountedInput& input, const std::string& file) : input_(input), file_(file) {}

  CocoFile result() && {
    for (std::size_t i = 0; i < coco_lists.size(); ++i)
      if (!has_list_[i]) refuse("these are no annotations of COCO; there is no list " + std::string(coco_lists[i]));
    return std::move(coco_);
  }

  bool null() override { return value(std::nullopt, std::nullopt); }
  bool boolean(bool is_true) override { return value(is_true ? 1 : 0, std::nullopt); }
  bool number_integer(number_integer_t number) override { return value(static_cast<double>(number), number); }
  bool number_unsigned(number_unsigned_t number) override {
    const bool fits = number <= static_cast<std::uint64_t>(INT64_MAX);
    return value(static_cast<double>(number), fits ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt);
  }
  bool number_float(number_float_t number, const string_t& /*text*/) override {
    constexpr double exact = 9007199254740992;  // 2⁵³
    const bool is_whole = std::abs(number) < exact && number == std::floor(number);
    return value(number, is_whole ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt);
  }
  bool string(string_t& text) override {
    if (is_member(CocoMember::file_name) || is_member(CocoMember::name)) {
      entry_.text = std::move(text);
      return true;
    }
    return value(std::nullopt, std::nullopt);
  }
  bool binary(binary_t& /*bytes*/) override { return true; }  // JSON has none

  bool start_object(std::size_t /*size*/) override {
    if (depth_ == 1 && list_ != CocoList::none) refuse_list();
    if (++depth_ == 3) {
      entry_ = {};
      member_ = CocoMember::none;
    }
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) list_ = coco_name<CocoList>(coco_lists, name);
    if (depth_ == 3) member_ = coco_name<CocoMember>(coco_members, name);
    return true;
  }
  bool end_object() override {
    if (depth_-- == 3 && list_ != CocoList::none) finish_entry();
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    if (depth_ == 0)
      refuse("this is a list; annotations of COCO are an object with images, annotations and categories");
    if (depth_ == 2 && list_ != CocoList::none) refuse_entry("is no object");
    if (++depth_ == 2 && list_ != CocoList::none) {
      has_list_[static_cast<std::size_t>(list_)] = true;
      place_ = 0;
    }
    if (depth_ == 4 && member_ == CocoMember::bbox) entry_.box_numbers = 0;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const std::size_t after_name = what.find("] ");
    refuse("this is no JSON that can be read: " +
           echo(what.substr(after_name == std::string_view::npos ? 0 : after_name + 2), 200));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { refuse_line(file_, input_.line(), what); }
  [[noreturn]] void refuse_list() const {
    refuse(std::string(coco_lists[static_cast<std::size_t>(list_)]) + " is no list");
  }
  [[noreturn]] void refuse_entry(const std::string& what) const {
    refuse(std::string(coco_lists[static_cast<std::size_t>(list_)]) + '[' + std::to_string(place_) + "] " + what);
  }

  /// Whether the next value is this member of an entry.
  [[nodiscard]] bool is_member(CocoMember member) const {
    return depth_ == 3 && list_ != CocoList::none && member_ == member;
  }

  /// Takes a value that is no text of a name. @param whole  if it is a whole number
  bool value(std::optional<double> number, std::optional<std::int64_t> whole) {
    if (list_ == CocoList::none) return true;
    if (depth_ == 1) refuse_list();
    if (depth_ == 2) refuse_entry("is no object");
    const auto member = static_cast<std::size_t>(member_);
    if (depth_ == 3 && member < entry_.numbers.size()) {
      entry_.numbers[member] = number;
      if (member < entry_.ids.size()) entry_.ids[member] = whole;
    } else if (depth_ == 4 && member_ == CocoMember::bbox) {
      if (!number) refuse_entry("has a bbox of something else than numbers");
      if (entry_.box_numbers < entry_.box.size()) entry_.box[entry_.box_numbers] = *number;
      ++entry_.box_numbers;
    }
    return true;
  }

  void finish_entry() {
    switch (list_) {
      case CocoList::images: coco_.images.push_back(image()); break;
      case CocoList::annotations: coco_.objects.push_back(object()); break;
      case CocoList::categories: coco_.categories.push_back({.id = id(CocoMember::id), .name = text("name")}); break;
      case CocoList::none: break;
    }
    ++place_;
  }

  [[nodiscard]] std::int64_t id(CocoMember member) const {
    const auto index = static_cast<std::size_t>(member);
    if (!entry_.ids[index]) refuse_entry("has no whole number " + std::string(coco_members[index]));
    return *entry_.ids[index];
  }
  [[nodiscard]] std::string text(const char* member) {
    const bool has_text = entry_.text && !entry_.text->empty() && entry_.text->find('\0') == std::string::npos;
    if (!has_text) refuse_entry("has no text " + std::string(member));
    return std::move(*entry_.text);
  }
  [[nodiscard]] std::optional<double> number(CocoMember member) const {
    return entry_.numbers[static_cast<std::size_t>(member)];
  }

  [[nodiscard]] CocoImage image() {
    const auto side = [&](CocoMember member) {
      constexpr double most = 1e6;
      const double pixels = number(member).value_or(0);
      return pixels >= 1 && pixels < most ? static_cast<int>(pixels) : 0;
    };
    return {.id = id(CocoMember::id),
            .file = text("file_name"),
            .width = side(CocoMember::width),
            .height = side(CocoMember::height)};
  }

  [[nodiscard]] CocoObject object() const {
    constexpr double most = 1e7;  // pixels
    const auto& box = entry_.box;
    const bool is_finite = std::all_of(box.begin(), box.end(), [](double edge) { return std::abs(edge) < most; });
    if (entry_.box_numbers != box.size() || !is_finite) refuse_entry("has no bbox of four numbers");
    const double area = number(CocoMember::area).value_or(-1);
    return {.image = id(CocoMember::image_id),
            .category = id(CocoMember::category_id),
            .left = box[0],
            .top = box[1],
            .width = box[2],
            .height = box[3],
            .area = area >= 0 && std::isfinite(area) ? area : -1,
            .is_crowd = number(CocoMember::iscrowd).value_or(0) != 0,
            .place = place_};
  }

  const CountedInput& input_;
  const std::string& file_;
  CocoFile coco_;
  std::array<bool, 3> has_list_{};
  std::int64_t depth_ = 0;
  CocoList list_ = CocoList::none;
  CocoMember member_ = CocoMember::none;
  CocoEntry entry_;
  std::int64_t place_ = 0;  ///< of the entry in its list
};

/// Sorts by id. @param name  returns the name of an entry for the message about two with one id
template <typename Item, typename Name>
void sort_by_id(std::vector<Item>& items, const char* kind, const Name& name, const std::string& file) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.id < b.id; });
  const auto twice =
      std::adjacent_find(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.id == b.id; });
  if (twice == items.end()) return;
  throw Error(ErrorCode::corrupt, shown(file) + " has two " + kind + " with the id " + std::to_string(twice->id) +
                                      ", " + echo(name(*twice)) + " and " + echo(name(*(twice + 1))) +
                                      "; give each an id of its own");
}

}  // namespace

CocoFile read_coco(std::istream& in, const std::string& file) {
  CountedInput input(in);
  CocoReader reader(input, file);
  nlohmann::json::sax_parse(input.begin(), CountedInput::end(), &reader);
  if (in.bad()) throw Error(ErrorCode::io, shown(file) + " cannot be read to its end");
  CocoFile coco = std::move(reader).result();
  sort_by_id(
      coco.images, "images", [](const CocoImage& image) { return image.file; }, file);
  sort_by_id(
      coco.categories, "categories", [](const CocoCategory& category) { return category.name; }, file);
  return coco;
}

}  // namespace lockstep::vision
