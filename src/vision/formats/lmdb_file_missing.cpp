// SPDX-License-Identifier: Apache-2.0
// Takes the place of lmdb_file.cpp where lockstep is built without liblmdb.
#include "lockstep/base/error.hpp"
#include "vision/formats/text_records.hpp"
#include "vision/source/files.hpp"

namespace lockstep::vision {

std::shared_ptr<const KeyValues> open_lmdb(const std::filesystem::path& folder) {
  throw Error(ErrorCode::unsupported, shown(folder) +
                                          " is a database of LMDB, and this lockstep was built without liblmdb; "
                                          "install it (Debian: liblmdb-dev) and build lockstep again");
}

}  // namespace lockstep::vision
