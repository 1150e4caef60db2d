// SPDX-License-Identifier: Apache-2.0
#include "vision/formats/data_yaml.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <system_error>

#include "base/nearest.hpp"
#include "vision/formats/text_lines.hpp"

namespace lockstep::vision {
namespace {

class YamlReader {
 public:
  YamlReader(const YAML::Node& root, const std::string& file) : root_(root), file_(file) {
    if (!root.IsMap()) refuse_line(file, 1, "there are no keys such as train: and names:");
  }

  [[nodiscard]] DataYaml read() const {
    DataYaml yaml{.train = texts("train"), .val = texts("val"), .test = texts("test")};
    const std::vector<std::string> paths = texts("path");
    if (paths.size() > 1) refuse(root_["path"], "path is the folder of the data; give one");
    if (!paths.empty()) yaml.path = paths.front();
    const YAML::Node names = root_["names"];
    if (has(names)) yaml.names = names.IsMap() ? numbered_names(names) : listed_names(names);
    add_count(yaml.names);
    return yaml;
  }

 private:
  static bool has(const YAML::Node& node) { return node.IsDefined() && !node.IsNull(); }

  [[noreturn]] void refuse(const YAML::Node& node, const std::string& what) const {
    refuse_line(file_, std::int64_t{node.Mark().line} + 1, what);
  }

  /// Returns a text, or the texts of a list; none for a key without value or that is not there.
  [[nodiscard]] std::vector<std::string> texts(const char* key) const {
    const YAML::Node node = root_[key];
    std::vector<std::string> texts;
    if (!has(node)) return texts;
    if (node.IsScalar()) {
      if (!node.Scalar().empty()) texts.push_back(node.Scalar());
      return texts;
    }
    if (!node.IsSequence()) refuse(node, std::string(key) + " is a path, or a list of paths");
    for (const YAML::Node& entry : node) {
      if (!entry.IsScalar() || entry.Scalar().empty()) refuse(entry, "an entry of " + std::string(key) + " is no path");
      texts.push_back(entry.Scalar());
    }
    return texts;
  }

  [[nodiscard]] std::string name_of(const YAML::Node& node, std::set<std::string>& seen) const {
    if (!node.IsScalar() || node.Scalar().empty()) refuse(node, "the name of a class is no text");
    if (!seen.insert(node.Scalar()).second)
      refuse(node, "there are two classes '" + echo(node.Scalar(), 40) + "'; each class has a name of its own");
    if (std::ssize(seen) > most_class_count)
      refuse(node, "there are more than " + std::to_string(most_class_count) + " classes");
    return node.Scalar();
  }

  [[nodiscard]] std::vector<std::string> listed_names(const YAML::Node& node) const {
    if (!node.IsSequence()) refuse(node, "names is a list of names, or a map from 0, 1, … to names");
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const YAML::Node& entry : node) names.push_back(name_of(entry, seen));
    return names;
  }

  [[nodiscard]] std::vector<std::string> numbered_names(const YAML::Node& node) const {
    std::map<std::int64_t, std::string> by_number;
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::int64_t number = whole_number(entry.first, "the number of a class");
      if (!by_number.emplace(number, name_of(entry.second, seen)).second)
        refuse(entry.first, "the class " + std::to_string(number) + " has two names");
    }
    std::vector<std::string> names;
    for (const auto& [number, name] : by_number) {
      if (number != std::ssize(names))
        refuse(node,
               "the class " + std::to_string(names.size()) + " has no name; number the classes from 0 without gaps");
      names.push_back(name);
    }
    return names;
  }

  [[nodiscard]] std::int64_t whole_number(const YAML::Node& node, const std::string& what) const {
    const std::string text = node.IsScalar() ? node.Scalar() : std::string();
    std::int64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() || number < 0 ||
        number > most_class_count)
      refuse(node, "'" + echo(text, 40) + "' is not " + what);
    return number;
  }

  /// Compares the names with their number, which takes their place where there are none.
  void add_count(std::vector<std::string>& names) const {
    const YAML::Node node = root_["nc"];
    if (!has(node)) return;
    const std::int64_t count = whole_number(node, "a number of classes");
    constexpr std::int64_t most_unnamed = 10'000;  // more are a damaged number
    if (names.empty() && count > most_unnamed)
      refuse(node, "nc is " + std::to_string(count) + ", and there are no names; so many classes need them");
    if (names.empty())
      for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
    if (count != std::ssize(names))
      refuse(node, "nc is " + std::to_string(count) + ", but there are " + std::to_string(names.size()) +
                       " names; correct it, or leave it out");
  }

  YAML::Node root_;
  const std::string& file_;
};

}  // namespace

DataYaml parse_data_yaml(std::string_view text, const std::string& file) {
  try {
    return YamlReader(YAML::Load(std::string(text)), file).read();
  } catch (const YAML::Exception& error) {
    refuse_line(file, std::max<std::int64_t>(error.mark.line, 0) + 1,
                "this is no YAML that can be read: " + echo(error.msg));
  }
}

}  // namespace lockstep::vision
