// SPDX-License-Identifier: Apache-2.0
#include "state/json_leaves.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::state {
namespace {

using nlohmann::json;

class JsonWalker : public nlohmann::json_sax<json> {
 public:
  JsonWalker(const std::string& file, std::size_t deepest, JsonVisitor& visitor)
      : file_(file), deepest_(deepest), visitor_(visitor) {}

  bool null() override { refuse("null, where a number or a text should be"); }
  bool boolean(bool) override { refuse("true or false, where a number or a text should be"); }
  bool number_integer(number_integer_t value) override { return whole(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > std::numeric_limits<std::int64_t>::max()) {
      refuse("the number " + std::to_string(value) + ", which does not fit into 64 bits with sign");
    }
    return whole(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    if (in_list_) refuse("the number " + echo(digits) + " in a list of whole numbers");
    return leaf(value);
  }
  bool string(string_t& text) override {
    if (in_list_) refuse("a text in a list of whole numbers");
    return leaf(std::move(text));
  }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool start_object(std::size_t) override {
    if (in_list_) refuse("an object in a list of whole numbers");
    if (depth_ == deepest_) refuse("an object inside " + std::to_string(deepest_) + " others, which is too deep");
    visitor_.begin_object(path_);
    ++depth_;
    path_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    path_.back() = name;
    return true;
  }
  bool end_object() override {
    path_.pop_back();
    --depth_;
    visitor_.end_object(path_);
    return true;
  }
  bool start_array(std::size_t) override {
    if (in_list_ || depth_ == 0) refuse("a list where it does not belong");
    in_list_ = true;
    list_.clear();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    visitor_.list(path_, list_);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw Error(ErrorCode::corrupt, file_ + ": this is not JSON from byte " + std::to_string(position) +
                                        " on; use another copy of the file");
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::corrupt,
                file_ + ": at " + text_of(path_) + " is " + what + "; use another copy of the file");
  }
  bool whole(std::int64_t value) {
    if (!in_list_) return leaf(value);
    list_.push_back(value);
    return true;
  }
  bool leaf(JsonVisitor::Scalar value) {
    if (depth_ == 0) refuse("a single value, where an object should be");
    visitor_.scalar(path_, std::move(value));
    return true;
  }

  const std::string& file_;
  std::size_t deepest_;
  JsonVisitor& visitor_;
  std::size_t depth_ = 0;
  JsonVisitor::Path path_;  // one key for each open object
  bool in_list_ = false;
  std::vector<std::int64_t> list_;
};

}  // namespace

void walk_json(std::string_view text, const std::string& file, std::size_t deepest, JsonVisitor& visitor) {
  JsonWalker walker(file, deepest, visitor);
  json::sax_parse(text, &walker);
}

std::string text_of(const JsonVisitor::Path& path) {
  std::string text;
  for (const std::string& key : path) text += (text.empty() ? "\"" : ".\"") + echo(key) + '"';
  return text.empty() ? "the top level" : text;
}

}  // namespace lockstep::state
