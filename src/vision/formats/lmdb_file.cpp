// SPDX-License-Identifier: Apache-2.0
// A database of LMDB, read without locks: nobody may write to it meanwhile.
#include <lmdb.h>

#include <mutex>
#include <string>

#include "lockstep/base/error.hpp"
#include "vision/formats/text_records.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {
namespace {

class LmdbFile final : public KeyValues {
 public:
  explicit LmdbFile(const std::filesystem::path& folder) : folder_(folder) {
    constexpr unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | MDB_NORDAHEAD;
    constexpr mdb_mode_t mode = 0644;
    MDB_env* made = nullptr;
    require(mdb_env_create(&made));
    environment_.reset(made);
    require(mdb_env_open(made, folder.c_str(), flags, mode));
    require_whole_file();
    MDB_txn* begun = nullptr;
    require(mdb_txn_begin(made, nullptr, MDB_RDONLY, &begun));
    transaction_.reset(begun);
    require(mdb_dbi_open(begun, nullptr, 0, &database_));
    MDB_stat stat{};
    require(mdb_stat(begun, database_, &stat));
    size_ = static_cast<std::int64_t>(stat.ms_entries);
  }

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::optional<std::span<const std::byte>> find(std::string_view key) const override {
    MDB_val wanted{key.size(), const_cast<char*>(key.data())};  // which LMDB does not change
    MDB_val value{};
    const std::lock_guard one_at_a_time(mutex_);  // a transaction is for one thread at a time
    const int code = mdb_get(transaction_.get(), database_, &wanted, &value);
    if (code == MDB_NOTFOUND) return {};
    require(code);
    return std::span(static_cast<const std::byte*>(value.mv_data), value.mv_size);
  }

 private:
  void require(int code) const {
    if (code != MDB_SUCCESS)
      throw Error(ErrorCode::io, shown(folder_) + " cannot be read as a database of LMDB: " + mdb_strerror(code));
  }
  /// Reading beyond the end of a file that was cut would end the process.
  void require_whole_file() const {
    MDB_envinfo info{};
    MDB_stat stat{};
    require(mdb_env_info(environment_.get(), &info));
    require(mdb_env_stat(environment_.get(), &stat));
    const auto needed = static_cast<std::int64_t>((info.me_last_pgno + 1) * stat.ms_psize);
    const std::int64_t bytes = state_of(folder_ / "data.mdb").bytes;
    if (bytes >= needed) return;
    throw Error(ErrorCode::corrupt, shown(folder_ / "data.mdb") + " has " + std::to_string(bytes) + " of its " +
                                        std::to_string(needed) + " bytes; copy it again");
  }

  struct Close {
    void operator()(MDB_env* environment) const { mdb_env_close(environment); }
    void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
  };

  std::filesystem::path folder_;
  std::unique_ptr<MDB_env, Close> environment_;
  std::unique_ptr<MDB_txn, Close> transaction_;  // ends before the environment
  MDB_dbi database_ = 0;
  std::int64_t size_ = 0;
  mutable std::mutex mutex_;
};

}  // namespace

std::shared_ptr<const KeyValues> open_lmdb(const std::filesystem::path& folder) {
  return std::make_shared<LmdbFile>(folder);
}

}  // namespace lockstep::vision
