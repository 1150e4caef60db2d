// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <lmdb.h>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep::vision {

/// Writes a database of LMDB, by liblmdb itself.
inline void put_database(const std::filesystem::path& folder, const std::map<std::string, std::string>& values) {
  std::filesystem::create_directories(folder);
  MDB_env* environment = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  ASSERT_EQ(mdb_env_create(&environment), MDB_SUCCESS);
  ASSERT_EQ(mdb_env_set_mapsize(environment, std::size_t{64} << 20), MDB_SUCCESS);
  ASSERT_EQ(mdb_env_open(environment, folder.c_str(), 0, 0644), MDB_SUCCESS);
  ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), MDB_SUCCESS);
  ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), MDB_SUCCESS);
  for (auto [key, bytes] : values) {
    MDB_val name{key.size(), const_cast<char*>(key.data())};  // which LMDB does not change
    MDB_val value{bytes.size(), bytes.data()};
    ASSERT_EQ(mdb_put(transaction, database, &name, &value, 0), MDB_SUCCESS);
  }
  ASSERT_EQ(mdb_txn_commit(transaction), MDB_SUCCESS);
  mdb_env_close(environment);
}

}  // namespace lockstep::vision
