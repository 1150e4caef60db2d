// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ddp/rank_zero.hpp"
#include "state/scratch_folder.hpp"

namespace lockstep::ddp {

/// A folder of rank 0, whose path all ranks know.
class SharedFolder {
 public:
  explicit SharedFolder(ProcessGroup& group) {
    if (group.is_root()) folder_.emplace();
    path_ = text_of_rank(group, folder_ ? folder_->path().string() : "");
  }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::optional<state::ScratchFolder> folder_;
  std::filesystem::path path_;
};

}  // namespace lockstep::ddp
