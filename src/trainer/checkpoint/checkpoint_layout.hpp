// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "state/safetensors.hpp"
#include "trainer/replica/store.hpp"

/// Which tensor of a store is in which file of a checkpoint, under which name.
namespace lockstep::trainer {

/// The files of tensors. `model.safetensors` has what evaluations compute with: the parameters, or with EMA their
/// averages, the running statistics or their EMA, averaged over all shards, and the graph's constants.
/// `optimizer.safetensors` has the rest.
enum class CheckpointFile { model, optimizer };
inline constexpr std::array checkpoint_files = {CheckpointFile::model, CheckpointFile::optimizer};
inline const char* name_of(CheckpointFile file) {
  return file == CheckpointFile::model ? "model.safetensors" : "optimizer.safetensors";
}

/// Elements of a stored tensor in this rank's memory.
struct StoredPart {
  CheckpointFile file = CheckpointFile::model;
  int tensor = 0;  ///< index in the file's header
  Count first;     ///< first element of the tensor
  Buffer elements;
};

/// The headers of a checkpoint's files. They follow from the model and the options, so they are equal on all ranks.
class CheckpointLayout {
 public:
  /// @param statistics  the number of parts of the running statistics; with 1 and without their EMA they are in the
  ///         model's file only
  /// @param metadata  of the model's file
  CheckpointLayout(const Store& store, std::int64_t statistics, state::SafetensorsHeader::Metadata metadata = {});

  /// Returns the number of parts of the running statistics in a checkpoint, by the header of its optimizer's file.
  [[nodiscard]] static std::int64_t statistics_in(const state::SafetensorsHeader& optimizer);

  [[nodiscard]] const state::SafetensorsHeader& header(CheckpointFile file) const {
    return headers_[static_cast<std::size_t>(file)];
  }
  /// Returns the tensor that a part belongs to.
  [[nodiscard]] const state::StoredTensor& tensor(const StoredPart& part) const {
    return header(part.file).tensors()[static_cast<std::size_t>(part.tensor)];
  }

  /// Adds the parts of the values, EMA weights and optimizer state that this rank has.
  /// @param all_values  whether the values of all parts are wanted, or only those that this rank updates
  void add_own(std::vector<StoredPart>& parts, const Store& store, bool all_values) const;
  /// Adds the averaged running statistics, or their EMA, in the model's file. @param memory  a part of the statistics
  void add_average(std::vector<StoredPart>& parts, const Store& store, const Buffer& memory) const;
  /// Adds the running statistics of all parts in the optimizer's file, unless they are in the model's file only.
  void add_statistics(std::vector<StoredPart>& parts, const Store& store, GatheredStatistics& all) const;
  /// Adds the constants of the graph, which follow from the options and are not read from a checkpoint.
  void add_constants(std::vector<StoredPart>& parts, const Store& store) const;
  /// Returns whether the optimizer's file has the running statistics.
  [[nodiscard]] bool has_statistics() const;

 private:
  void add(std::vector<StoredPart>& parts, CheckpointFile file, const std::string& prefix, const Layout& layout,
           const Buffer& own, std::span<const LayoutPart> owned) const;

  std::vector<state::SafetensorsHeader> headers_;
};

}  // namespace lockstep::trainer
