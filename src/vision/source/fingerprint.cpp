// SPDX-License-Identifier: Apache-2.0
#include "vision/source/fingerprint.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

constexpr std::int64_t few_samples = 64;
constexpr std::int64_t blocks_at_once = 256;

std::uint64_t hash_of_text(std::string_view text) {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

std::uint64_t hash_of_annotation(const Annotation& annotation) {
  Fnv1a hash;
  hash.add(std::int64_t{annotation.label});
  hash.add(static_cast<std::int64_t>(annotation.boxes.size()));
  for (const Box& box : annotation.boxes) {
    hash.add(std::int64_t{box.label} * 2 + (box.is_difficult ? 1 : 0));
    for (const float edge : {box.left, box.top, box.right, box.bottom})
      hash.add(std::int64_t{std::bit_cast<std::uint32_t>(edge)});
    // Boxes without these have the hash that caches and checkpoints of earlier builds recorded.
    if (box.is_crowd || box.area >= 0) {
      hash.add(std::int64_t{box.is_crowd});
      hash.add(std::bit_cast<std::int64_t>(box.area));
    }
  }
  if (annotation.image_id)
    for (const std::int64_t number :
         {*annotation.image_id, std::int64_t{annotation.width}, std::int64_t{annotation.height}})
      hash.add(number);
  const std::vector<std::uint8_t>& mask = annotation.mask.pixels;
  if (!mask.empty()) hash.add(std::string_view(reinterpret_cast<const char*>(mask.data()), mask.size()));
  if (!annotation.mask_file.empty()) hash.add(annotation.mask_file);
  if (!annotation.text.empty()) hash.add(annotation.text);
  return hash.value();
}

std::vector<std::pair<std::int64_t, std::uint64_t>> hash_contents(const Source& source, bool all) {
  const bool is_in_memory = source.size() > 0 && source.stored_bytes(0) < 0;
  const std::int64_t count = all || is_in_memory ? source.size() : std::min(source.size(), few_samples);
  std::vector<std::pair<std::int64_t, std::uint64_t>> hashes;
  std::vector<std::byte> bytes;
  Image mask;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t sample = i * source.size() / count;
    source.read(sample, bytes);
    std::uint64_t hash = hash_of(bytes);
    source.read_mask(sample, bytes, mask);
    if (!mask.pixels.empty()) hash = combine(hash, hash_of(std::as_bytes(std::span(mask.pixels))));
    hashes.emplace_back(sample, hash);
  }
  return hashes;
}

std::string bytes_of(const std::vector<std::uint64_t>& numbers) {
  std::string bytes(numbers.size() * sizeof(std::uint64_t), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::int64_t largest_size(std::int64_t mine, const ExchangeTexts& exchange) {
  std::int64_t most = mine;
  for (const std::string& text : exchange(bytes_of({static_cast<std::uint64_t>(mine)}))) {
    std::int64_t size = 0;
    std::memcpy(&size, text.data(), std::min(text.size(), sizeof size));
    most = std::max(most, size);
  }
  return most;
}

/// Returns the first position at which the texts, of hashes, are not all equal; `count` if there is none.
std::int64_t first_unequal(const std::vector<std::string>& texts, std::int64_t count) {
  const auto hash_at = [](const std::string& text, std::int64_t position) {
    return std::string_view(text).substr(static_cast<std::size_t>(position) * sizeof(std::uint64_t),
                                         sizeof(std::uint64_t));
  };
  for (std::int64_t position = 0; position < count; ++position)
    for (const std::string& text : texts)
      if (hash_at(text, position) != hash_at(texts.front(), position)) return position;
  return count;
}

/// Looks for the first of `count` hashes that is not the same on all ranks.
std::optional<std::int64_t> first_unequal_hash(std::int64_t count,
                                               const std::function<std::uint64_t(std::int64_t)>& hash_at,
                                               const ExchangeTexts& exchange) {
  std::int64_t begin = 0;
  std::int64_t length = count;
  while (length > 0) {
    const std::int64_t blocks = std::min(blocks_at_once, length);
    const auto edge = [&](std::int64_t i) { return begin + i * length / blocks; };
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(blocks));
    for (std::int64_t block = 0; block < blocks; ++block)
      for (std::int64_t i = edge(block); i < edge(block + 1); ++i)
        hashes[static_cast<std::size_t>(block)] = combine(hashes[static_cast<std::size_t>(block)], hash_at(i));
    const std::int64_t unequal = first_unequal(exchange(bytes_of(hashes)), blocks);
    if (unequal == blocks) return std::nullopt;
    if (length == blocks) return begin + unequal;  // each block was one hash
    const std::int64_t next = edge(unequal);
    length = edge(unequal + 1) - next;
    begin = next;
  }
  return std::nullopt;
}

std::string annotation_text(const Source& source, const Annotation& annotation) {
  if (!annotation.boxes.empty())
    return std::to_string(annotation.boxes.size()) + " boxes with hash " +
           format_text("%016llx", static_cast<unsigned long long>(hash_of_annotation(annotation)));
  if (!annotation.text.empty()) return "text '" + echo(annotation.text, 40) + "'";
  if (annotation.label < 0) return "no annotation";
  return "class " + echo(source.class_names()[static_cast<std::size_t>(annotation.label)], 40);
}

std::string describe(const Source& source, const SourceFingerprint& print, std::int64_t sample) {
  if (sample >= source.size()) return "no such sample";
  std::string text = shown(source.relative_place(sample)) + " (";
  if (source.stored_bytes(sample) >= 0) text += std::to_string(source.stored_bytes(sample)) + " bytes, ";
  text += annotation_text(source, source.annotation(sample));
  const auto read = std::lower_bound(print.contents.begin(), print.contents.end(), std::pair(sample, std::uint64_t{0}));
  if (read != print.contents.end() && read->first == sample)
    text += format_text(", contents with hash %016llx", static_cast<unsigned long long>(read->second));
  return text + ')';
}

}  // namespace

SourceFingerprint fingerprint(const Source& source, bool all) {
  SourceFingerprint print;
  std::uint64_t files = 0;
  std::uint64_t sizes = 0;
  std::uint64_t annotations = 0;
  for (std::int64_t sample = 0; sample < source.size(); ++sample) {
    const std::uint64_t path = hash_of_text(source.relative_place(sample));
    const auto size = static_cast<std::uint64_t>(source.stored_bytes(sample));
    const std::uint64_t annotation = hash_of_annotation(source.annotation(sample));
    files = combine(files, path);
    sizes = combine(sizes, size);
    annotations = combine(annotations, annotation);
    print.samples.push_back(combine(combine(path, size), annotation));
  }
  std::uint64_t stored = 0;
  print.contents = hash_contents(source, all);
  for (const auto& [sample, hash] : print.contents) stored = combine(stored, hash);
  std::uint64_t names = 0;
  for (const std::string& name : source.class_names()) names = combine(names, hash_of_text(name));
  for (const std::int64_t id : source.category_ids()) names = combine(names, static_cast<std::uint64_t>(id));
  print.terms = {{"files", files},
                 {"sizes", sizes},
                 {"annotations", annotations},
                 {"class names", names},
                 {"stored bytes of " + std::to_string(print.contents.size()) + " samples", stored}};
  return print;
}

std::optional<SampleDifference> first_difference(const Source& source, const SourceFingerprint& mine,
                                                 const ExchangeTexts& exchange) {
  const auto at = [](const auto& hashes, std::int64_t i) { return hashes[static_cast<std::size_t>(i)]; };
  const std::int64_t most = largest_size(source.size(), exchange);
  std::optional<std::int64_t> sample = first_unequal_hash(
      most, [&](std::int64_t i) { return i < source.size() ? at(mine.samples, i) : 0; }, exchange);
  if (!sample) {  // so all ranks have read the contents of the same samples
    const auto count = static_cast<std::int64_t>(mine.contents.size());
    sample = first_unequal_hash(
        count, [&](std::int64_t i) { return at(mine.contents, i).second; }, exchange);
    if (sample) sample = at(mine.contents, *sample).first;
  }
  if (!sample) return std::nullopt;
  return SampleDifference{*sample, exchange(describe(source, mine, *sample))};
}

std::string text_of(const SampleDifference& difference, const std::function<std::string(int)>& host_of) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < difference.by_rank.size(); ++rank)
    ranks[difference.by_rank[rank]].push_back(static_cast<int>(rank));
  const auto usual = std::max_element(ranks.begin(), ranks.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const bool has_majority = usual != ranks.end() && 2 * usual->second.size() > difference.by_rank.size();
  std::string text = "sample " + std::to_string(difference.sample) + " is the first that differs: ";
  for (auto what = ranks.begin(); what != ranks.end(); ++what) {
    if (has_majority && what == usual) continue;
    text += rank_names(what->second, host_of) + (what->second.size() == 1 ? " has " : " have ") + what->first + ", ";
  }
  if (!has_majority) return text.substr(0, text.size() - 2);
  const std::size_t others = usual->second.size();
  return text + "the other " + std::to_string(others) + (others == 1 ? " has " : " have ") + usual->first;
}

}  // namespace lockstep::vision
