// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/train/cluster/cluster.hpp"
#include "base/hash.hpp"
#include "lockstep/data/dataset.hpp"
#include "lockstep/mpi/world.hpp"
#include "nn/description/description.hpp"
#include "platform/ranks/agreement.hpp"
#include "vision/formats/sources.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/picture_defaults.hpp"
#include "vision/source/fingerprint.hpp"
#include "vision/transforms/pipeline.hpp"
#include "workloads/picture_task.hpp"

namespace lockstep::train {

/// The training or the validation part of the user's own pictures.
struct PicturePart {
  std::string name;  ///< "training" or "validation"
  std::shared_ptr<const vision::Source> source;
  std::shared_ptr<const vision::Source> samples;  ///< those of the data set: the source, or tiles of its pictures
  vision::SourceFingerprint fingerprint;
  std::shared_ptr<vision::BadSamples> bad_samples;
};

/// The user's own pictures (--data), and how they become the input of a network.
struct Pictures {
  vision::Survey survey;
  std::optional<PicturePart> train;  ///< nothing where they are only to be evaluated
  std::optional<PicturePart> val;    ///< nothing where nothing is evaluated
  int channels = 3;
  vision::InputSize input;
  Normalization normalization;
  std::shared_ptr<const vision::Collate> collate;
  vision::Pipelines pipelines;
  std::vector<vision::PictureGroup> groups;  ///< how evaluations group the pictures; empty: all have the usual input
  std::vector<vision::StepSize> steps;  ///< sizes of training steps (--multi-scale); empty: all have that of the input

  [[nodiscard]] const PicturePart& main_part() const { return train ? *train : *val; }
};

/// Opens the pictures that the options name. Not collective.
/// @param class_names  of the model that is evaluated; empty: the classes are those of the pictures
/// @param example      small data that the model can take
/// @throws Error as vision::open_sources
Pictures open_pictures(const Options& options, const workloads::PictureTask& task,
                       const std::vector<std::string>& class_names, const nn::DataSpec& example);

/// Lists the pictures of --predict, which enter the network as those of the run did. Not collective.
/// @throws Error{io} if one is missing or cannot be read; Error{invalid_argument} if there are none
Pictures open_predicted(const Options& options, const workloads::PictureTask& task, const nn::ModelDescription& model);

/// Divides the pictures that are evaluated into tiles, where the options want it, and groups them by their size, where
/// the workload wants it. The ranks share the headers that have to be read. Collective; a rank that could not open the
/// pictures takes part, too.
/// @param pictures  null on such a rank; nothing is grouped then, or if the ranks have other pictures
void group_evaluated(Pictures* pictures, const Options& options, const workloads::PictureTask& task,
                     const World& world);

/// @throws UsageError unless the pictures have the annotations that the run needs
void require_fit(const Pictures& pictures, const Options& options, const workloads::PictureTask& task);

/// Makes data sets of the parts. A part that is missing is replaced by the other one, because it is not used.
data::DatasetPair make_datasets(const Pictures& pictures, const Options& options,
                                const std::shared_ptr<vision::PictureCache>& cache);

/// Adds what must be the same on all ranks.
/// @param recorded  a hash of it, which a checkpoint records
void add_terms(const Pictures& pictures, Agreement& agreement, Fnv1a& recorded);

/// Names the first sample that is not the same on all ranks; empty if there is none. Collective.
std::string difference_text(const Pictures& pictures, const World& world);

/// Makes the cache that the ranks of this node share, if the options want one. Collective.
/// @return null without one
std::shared_ptr<vision::PictureCache> make_cache(const Pictures& pictures, const Options& options,
                                                 const Cluster& cluster, const std::string& fingerprint);

/// Returns the bad samples that the ranks have skipped, a line for each, on rank 0. Collective.
std::string skipped_samples(const Pictures& pictures, const World& world);

/// Describes how pictures become the network's input, for people.
std::string input_text(const Pictures& pictures);

/// Writes the file of --show-batch: the first batch of training, or of validation where nothing is trained.
/// @throws Error{io} if the file cannot be written; as PictureDataset::read
void show_batch(const data::DatasetPair& sets, const Options& options, Count batch);

}  // namespace lockstep::train
