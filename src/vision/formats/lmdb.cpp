// SPDX-License-Identifier: Apache-2.0
// Databases of LMDB with pictures of lines and their texts, as PaddleOCR's LMDBDataSet has them: each folder with a
// file data.mdb is one.
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/error.hpp"
#include "vision/formats/data_format.hpp"
#include "vision/formats/dictionary.hpp"
#include "vision/formats/text_records.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr const char* database_name = "data.mdb";
constexpr std::array<const char*, 2> database_train_folders = {"training", "train"};
constexpr std::array<const char*, 4> database_val_folders = {"validation", "val", "evaluation", "test"};

/// The databases of a part, by their folder relative to that of the part; "" for this folder itself.
using Databases = std::map<std::string, std::shared_ptr<const KeyValues>>;

/// Samples of a listing whose pictures lie in databases.
class DatabaseSource final : public Source {
 public:
  /// @param listed  the path of a sample is the folder of its database, a slash, and the key of the picture
  DatabaseSource(std::shared_ptr<const Source> listed, std::shared_ptr<const Databases> databases)
      : listed_(std::move(listed)), databases_(std::move(databases)) {}

  [[nodiscard]] std::string format() const override { return listed_->format(); }
  [[nodiscard]] std::int64_t size() const override { return listed_->size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return listed_->class_names(); }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override { return listed_->annotation(sample); }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return listed_->place(sample); }
  [[nodiscard]] std::string relative_place(std::int64_t sample) const override {
    return listed_->relative_place(sample);
  }
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t sample) const override { return listed_->stored_bytes(sample); }
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override {
    const fs::path path = listed_->relative_place(sample);
    const auto picture = databases_->at(path.parent_path().string())->find(path.filename().string());
    if (!picture) throw Error(ErrorCode::io, shown(place(sample)) + " is no longer in its database");
    bytes.assign(picture->begin(), picture->end());
  }

 private:
  std::shared_ptr<const Source> listed_;
  std::shared_ptr<const Databases> databases_;
};

/// A part, and what its samples are read from.
struct DatabasePart {
  Listing listing;
  std::shared_ptr<const Databases> databases;
};

/// Returns the folders of databases, relative to a folder.
std::vector<std::string> database_folders(const fs::path& folder) {
  std::vector<std::string> folders;
  for (const FoundFile& file : files_below(folder))
    if (const fs::path path = file.path; path.filename() == database_name)
      folders.push_back(path.parent_path().string());
  return folders;
}

DatabasePart part_of_databases(const fs::path& folder, const Dictionary& dictionary) {
  Databases databases;
  Listing listing{.folder = folder};
  for (const std::string& relative : database_folders(folder)) {
    const fs::path own = relative.empty() ? folder : folder / relative;
    const auto database = open_lmdb(own);
    for (TextRecord& record : list_text_records(*database, own.string(), listing.notes)) {
      const std::string path = (fs::path(relative) / record.key).string();
      std::string text = dictionary.readable(record.text, path, listing.notes);
      if (text.empty()) continue;
      FileSample sample{.path = path, .bytes = record.bytes};
      sample.annotation.text = std::move(text);
      listing.samples.push_back(std::move(sample));
    }
    databases.emplace(relative, database);
  }
  return {std::move(listing), std::make_shared<const Databases>(std::move(databases))};
}

/// The folders of the parts; empty where there is none.
struct DatabaseFolders {
  fs::path train;
  fs::path val;
};

DatabaseFolders folders_of(const SourceOptions& options) {
  const fs::path data = is_folder(options.data) ? options.data : options.data.parent_path();
  DatabaseFolders folders{first_of(data, database_train_folders), first_of(data, database_val_folders)};
  if (folders.train.empty() && folders.val.empty()) (evaluates_whole(options) ? folders.val : folders.train) = data;
  if (!options.val.empty()) folders.val = options.val;
  return folders;
}

/// Reads the pictures of a part from databases in place of files. @param made  by make_parts()
void read_from(std::shared_ptr<const Databases> databases, Part& made) {
  if (made.source) made.source = std::make_shared<DatabaseSource>(std::move(made.source), std::move(databases));
}

}  // namespace

std::string why_not_lmdb(const fs::path& data) {
  if (!is_folder(data)) return data.filename() == database_name ? "" : "it is no file data.mdb";
  return database_folders(data).empty() ? "there is no file data.mdb in it or below" : "";
}

Parts open_lmdb_data(const SourceOptions& options) {
  const DatabaseFolders folders = folders_of(options);
  const Dictionary dictionary(options);
  std::optional<DatabasePart> train;
  std::optional<DatabasePart> val;
  if (!folders.train.empty()) train = part_of_databases(folders.train, dictionary);
  if (!folders.val.empty()) val = part_of_databases(folders.val, dictionary);
  const auto listing_of = [](const std::optional<DatabasePart>& part) {
    return part ? std::optional(part->listing) : std::nullopt;
  };
  Parts parts = make_parts("lmdb", dictionary.class_names(), listing_of(train), listing_of(val), options);
  const auto of_train = train ? train->databases : nullptr;
  read_from(of_train, parts.train);
  read_from(val ? val->databases : of_train, parts.val);  // a validation part may be divided off
  return parts;
}

}  // namespace lockstep::vision
