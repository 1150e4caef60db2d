// SPDX-License-Identifier: Apache-2.0
#include "apps/train/data/pictures.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "apps/cli/command_line.hpp"
#include "base/wrapped.hpp"
#include "lockstep/data/sampler.hpp"
#include "mpi/print.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "vision/picture_tiles.hpp"
#include "vision/show_batch.hpp"
#include "vision/source/file_source.hpp"
#include "vision/source/files.hpp"

namespace lockstep::train {
namespace {

PicturePart part_of(std::string name, const std::shared_ptr<const vision::Source>& source, const Options& options) {
  PicturePart part{.name = std::move(name), .source = source, .samples = source};
  part.fingerprint = vision::fingerprint(*part.source, options.full_fingerprint);
  part.bad_samples = std::make_shared<vision::BadSamples>(part.name);
  return part;
}

std::int64_t samples_of(const std::optional<PicturePart>& part) { return part ? part->samples->size() : 0; }

std::shared_ptr<const data::Dataset> dataset_of(const Pictures& pictures, bool is_training, const Options& options,
                                                std::shared_ptr<vision::PictureCache> cache) {
  const PicturePart& part = is_training ? *pictures.train : *pictures.val;
  return std::make_shared<vision::PictureDataset>(
      part.samples,
      vision::PictureOptions{.name = options.user_data.path,
                             .channels = pictures.channels,
                             .input = pictures.input.size,
                             .transforms = is_training ? pictures.pipelines.training : pictures.pipelines.evaluation,
                             .steps = is_training ? pictures.steps : std::vector<vision::StepSize>(),
                             .groups = is_training ? std::vector<vision::PictureGroup>() : pictures.groups,
                             .normalization = pictures.normalization,
                             .collate = pictures.collate,
                             .on_bad_sample = options.user_data.on_bad_sample,
                             .is_evaluation = !is_training,
                             .bad_samples = part.bad_samples,
                             .cache = std::move(cache),
                             .first_in_cache = is_training ? 0 : samples_of(pictures.train)});
}

std::string size_text(const vision::Size& size) {
  return std::to_string(size.width) + "×" + std::to_string(size.height);
}

/// Describes the sizes of training steps; empty if all have that of the input.
std::string steps_text(const std::vector<vision::StepSize>& steps) {
  if (steps.empty()) return {};
  return ", in training steps " + std::to_string(steps.size()) + " sizes from " + size_text(steps.front().size) +
         " to " + size_text(steps.back().size);
}

/// @throws Error{invalid_argument} if the data lack a part that the run needs
void require_parts(const vision::Sources& sources, const Options& options) {
  const std::string data = vision::shown(options.user_data.path);
  const bool only_shows = !options.user_data.show_batch.empty();
  if (!sources.val && !only_shows && (options.eval_only || options.trainer.eval_interval > 0))
    throw Error(ErrorCode::invalid_argument,
                data +
                    " has no validation part; name one (--val), set aside a fraction of the training samples for it "
                    "(--val-split 0.1), or do not evaluate (--eval-interval never)");
  if (!sources.train && !only_shows && !options.eval_only)
    throw Error(ErrorCode::invalid_argument,
                data + " has a part to evaluate but none to train on; evaluate it (--eval-only), or give both parts");
}

/// Returns the size of a picture that its annotation says, or else its header; 0×0 for a picture that cannot be read,
/// because whoever decodes it says what is wrong.
vision::Size size_of_picture(const vision::Source& source, std::int64_t sample, std::vector<std::byte>& bytes) {
  const vision::Annotation& annotation = source.annotation(sample);
  if (annotation.width > 0 && annotation.height > 0) return {.width = annotation.width, .height = annotation.height};
  try {
    return vision::size_of_sample(source, sample, bytes).value_or(vision::Size{});
  } catch (const Error&) {
    return {};
  }
}

/// Returns the sizes of every `ranks`th picture, from number `rank` on, as "SAMPLE WIDTH HEIGHT …".
std::string sizes_text(const vision::Source& source, int rank, int ranks) {
  std::string text;
  std::vector<std::byte> bytes;
  for (std::int64_t sample = rank; sample < source.size(); sample += ranks) {
    const auto [width, height] = size_of_picture(source, sample, bytes);
    text += std::to_string(sample) + ' ' + std::to_string(width) + ' ' + std::to_string(height) + ' ';
  }
  return text;
}

/// Returns the sizes that all ranks have read, the same on all ranks; 0×0 for others.
std::vector<vision::Size> sizes_in(const std::vector<std::string>& texts, std::int64_t samples) {
  std::vector<vision::Size> sizes(static_cast<std::size_t>(samples));
  for (const std::string& text : texts) {
    std::istringstream numbers(text);
    vision::Size size;
    for (std::int64_t sample = 0; numbers >> sample >> size.width >> size.height;)
      if (sample < samples) sizes[static_cast<std::size_t>(sample)] = size;
  }
  return sizes;
}

/// @throws Error{invalid_argument} if --multi-scale leaves no choice
std::vector<vision::StepSize> steps_of(const UserData& data, const vision::InputSize& input,
                                       const workloads::PictureTask& task) {
  const auto& [least, most] = data.scales;
  std::vector<vision::StepSize> steps;
  try {
    const auto sizes_between = task.step_sizes != nullptr ? task.step_sizes : vision::sizes_between;
    for (const vision::Size& size : sizes_between(input.size, least, most))
      steps.push_back(task.step(data.augment, size, input.are_equal));
  } catch (const Error& error) {
    throw Error(error.code(), format_text("--multi-scale %g,%g with an input of ", least, most) +
                                  size_text(input.size) + " pixels: " + error.message());
  }
  return steps;
}

/// Lets evaluations resize pictures by --eval-scale, in place of what a checkpoint says.
/// @throws Error{invalid_argument} for a workload whose evaluations have inputs of one size
void scale_evaluation(const UserData& data, const workloads::PictureTask& task,
                      std::vector<vision::Transform>& evaluation) {
  if (data.eval_scale == 0 && data.eval_tiles == 0) return;
  if (!task.evaluates_at_scale)
    throw Error(ErrorCode::invalid_argument,
                std::string(data.eval_scale > 0 ? "--eval-scale" : "--eval-tiles") +
                    " is for segmentation; other models evaluate all pictures at the size of --img");
  if (data.eval_scale == 0) return;
  std::erase_if(evaluation, [](const vision::Transform& one) { return one.factor > 0; });
  evaluation.insert(evaluation.begin(), vision::random_scale(data.eval_scale, data.eval_scale));
}

}  // namespace

Pictures open_pictures(const Options& options, const workloads::PictureTask& task,
                       const std::vector<std::string>& class_names, const nn::DataSpec& example) {
  const UserData& data = options.user_data;
  vision::Sources sources = vision::open_sources({.data = data.path,
                                                  .format = data.format,
                                                  .val = data.val,
                                                  .val_split = data.val_split,
                                                  .seed = options.trainer.seed,
                                                  .evaluates_only = options.eval_only,
                                                  .class_names = class_names,
                                                  .texts = data.texts});
  require_parts(sources, options);
  Pictures pictures{.survey = std::move(sources.survey)};
  if (sources.train) pictures.train = part_of("training", sources.train, options);
  if (sources.val) pictures.val = part_of("validation", sources.val, options);
  const vision::Source& main = *pictures.main_part().source;
  const bool has_usual = task.usual_input != nullptr;
  const workloads::UsualInput usual = has_usual ? task.usual_input(example.at("images")) : workloads::UsualInput{};
  pictures.channels = has_usual ? usual.channels : vision::default_channels(main);
  pictures.input = task.input(main, data.size.width > 0 ? data.size : usual.size);
  if (pictures.train && pictures.val && pictures.input.are_equal)  // those that are evaluated have to fit, too
    pictures.input.are_equal = vision::given_input(*pictures.val->source, pictures.input.size).are_equal;
  pictures.normalization = task.normalization(main, pictures.channels);
  std::vector<const vision::Source*> parts;
  for (const std::optional<PicturePart>& part : {pictures.train, pictures.val})
    if (part) parts.push_back(part->source.get());
  pictures.collate = task.collate(parts);
  pictures.pipelines = task.pipelines(data.augment, pictures.input.size, pictures.input.are_equal);
  scale_evaluation(data, task, pictures.pipelines.evaluation);
  if (data.scales.most > 0 && pictures.train && !options.eval_only)
    pictures.steps = steps_of(data, pictures.input, task);
  return pictures;
}

Pictures open_predicted(const Options& options, const workloads::PictureTask& task, const nn::ModelDescription& model) {
  std::vector<vision::FileSample> samples;
  for (const std::string& path : cli::words_of(options.predict)) {
    const vision::FileState state = vision::state_of(path);
    if (!state.why_not.empty() && !state.is_folder)
      throw Error(ErrorCode::io, "--predict: " + vision::shown(path) + ' ' + state.why_not);
    if (!state.is_folder) samples.push_back({.path = path, .bytes = state.bytes});
    if (!state.is_folder) continue;
    for (const vision::FoundFile& file : vision::files_below(path))
      if (vision::has_picture_suffix(file.path))
        samples.push_back({.path = (std::filesystem::path(path) / file.path).string(), .bytes = file.state.bytes});
  }
  if (samples.empty())
    throw Error(ErrorCode::invalid_argument,
                "--predict " + options.predict + ": there are no pictures (.jpg, .jpeg, .png)");
  const auto [channels, height, width] = model.data.tensors.front().extent;
  const vision::Size size{.width = static_cast<int>(width), .height = static_cast<int>(height)};
  Pictures pictures{.channels = static_cast<int>(channels), .input = {.size = size}, .normalization = *model.images};
  pictures.collate = task.collate_of_model(model.data.tensors);
  std::vector<std::string> names = model.class_names;
  for (auto label = std::ssize(names); label < model.data.classes; ++label) names.push_back(std::to_string(label));
  pictures.val = part_of("predicted",
                         std::make_shared<vision::FileSource>("files", std::filesystem::path(), std::move(names),
                                                              std::move(samples), model.category_ids),
                         options);
  auto& transforms = pictures.pipelines.evaluation;
  if (!model.transforms.empty()) transforms = vision::parse_transforms(model.transforms, size);
  scale_evaluation(options.user_data, task, transforms);
  if (std::ranges::none_of(transforms, &vision::Transform::sets_size)) transforms.push_back(vision::resize_to(size));
  return pictures;
}

void group_evaluated(Pictures* pictures, const Options& options, const workloads::PictureTask& task,
                     const World& world) {
  const RankSet& ranks = world.group();
  if (task.groups == nullptr) return;
  const bool is_open = pictures != nullptr && pictures->val;
  const std::string mine = is_open ? sizes_text(*pictures->val->source, ranks.rank().value, ranks.size()) : "";
  const std::vector<std::string> all = ranks.exchange(mine);
  if (!is_open) return;
  std::vector<vision::Size> sizes = sizes_in(all, pictures->val->source->size());
  if (const int side = options.user_data.eval_tiles; side > 0) {
    auto [tiles, tile_sizes] = vision::tiles_of(pictures->val->source, sizes, side);
    pictures->val->samples = std::move(tiles);
    sizes = std::move(tile_sizes);
  }
  pictures->groups = task.groups(sizes, pictures->input.size, pictures->pipelines.evaluation);
}

void require_fit(const Pictures& pictures, const Options& options, const workloads::PictureTask& task) {
  if (!options.user_data.show_batch.empty() || !options.predict.empty()) return;
  const std::string why = task.why_not(*pictures.main_part().source);
  if (!why.empty()) throw UsageError(data_option(options) + ": " + why + "; --show-batch FILE.png shows them");
}

data::DatasetPair make_datasets(const Pictures& pictures, const Options& options,
                                const std::shared_ptr<vision::PictureCache>& cache) {
  data::DatasetPair sets;
  if (pictures.train) sets.train = dataset_of(pictures, true, options, cache);
  if (pictures.val) sets.test = dataset_of(pictures, false, options, cache);
  if (!sets.train) sets.train = sets.test;
  if (!sets.test) sets.test = sets.train;
  return sets;
}

void add_terms(const Pictures& pictures, Agreement& agreement, Fnv1a& recorded) {
  std::vector<Term> terms;
  for (const std::optional<PicturePart>& part : {pictures.train, pictures.val}) {
    if (!part) continue;
    for (const auto& [name, hash] : part->fingerprint.terms)
      terms.push_back(
          {part->name + ' ' + name + " with hash", format_text("%016llx", static_cast<unsigned long long>(hash))});
  }
  for (const Term& term : terms) recorded.add(term.name + ' ' + term.value);
  recorded.add(input_text(pictures));
  agreement.add(std::move(terms));
}

std::string difference_text(const Pictures& pictures, const World& world) {
  const auto exchange = [&](const std::string& mine) { return world.group().exchange(mine); };
  const auto host_of = [&](int rank) { return world.group().host_of({rank}); };
  for (const std::optional<PicturePart>& part : {pictures.train, pictures.val}) {
    if (!part) continue;
    if (const auto difference = vision::first_difference(*part->source, part->fingerprint, exchange))
      return part->name + " part: " + vision::text_of(*difference, host_of);
  }
  return {};
}

std::shared_ptr<vision::PictureCache> make_cache(const Pictures& pictures, const Options& options,
                                                 const Cluster& cluster, const std::string& fingerprint) {
  const UserData& data = options.user_data;
  if (!options.predict.empty() || vision::is_in_memory(*pictures.main_part().source)) return nullptr;
  const RankSet& node = cluster.world.node_group();
  const std::filesystem::path path = std::filesystem::absolute(data.path);
  std::string why_not;
  const std::string decoding = vision::decoding_text(pictures.channels, pictures.pipelines.training, pictures.steps) +
                               "; " + vision::decoding_text(pictures.channels, pictures.pipelines.evaluation) +
                               "; tiles " + std::to_string(data.eval_tiles);
  auto cache = vision::make_picture_cache({.kind = data.cache,
                                           .most = data.most_cached,
                                           .folder = std::filesystem::is_directory(path) ? path : path.parent_path(),
                                           .contents = fingerprint + ' ' + decoding},
                                          samples_of(pictures.train) + samples_of(pictures.val),
                                          {.rank = node.rank().value,
                                           .size = node.size(),
                                           .gather = [&](const std::string& own) { return node.exchange(own); }},
                                          why_not);
  if (!why_not.empty()) print_error(options.program, "note: decoded pictures are not kept (--cache): " + why_not);
  return cache;
}

std::string skipped_samples(const Pictures& pictures, const World& world) {
  std::string mine;
  for (const std::optional<PicturePart>& part : {pictures.train, pictures.val})
    if (part) mine += part->bad_samples->text();
  return vision::united(gather_strings(world.group(), mine, {0}));
}

std::string input_text(const Pictures& pictures) {
  return size_text(pictures.input.size) + " pixels" + steps_text(pictures.steps) + "; training transforms " +
         vision::text_of(pictures.pipelines.training) + "; evaluation transforms " +
         vision::text_of(pictures.pipelines.evaluation);
}

void show_batch(const data::DatasetPair& sets, const Options& options, Count batch) {
  constexpr std::int64_t most = 64;
  const auto& dataset = dynamic_cast<const vision::PictureDataset&>(*sets.train);
  const data::DistributedSampler sampler({.samples = {dataset.size()},
                                          .batch = {std::min(batch.value, dataset.size())},
                                          .seed = options.trainer.seed,
                                          .shuffle = !dataset.options().is_evaluation});
  const std::size_t extents = dataset.extents_of({.seed = options.trainer.seed, .epoch = 1, .step = 0});
  std::vector<data::SampleKey> keys;
  for (const std::int64_t index :
       sampler.indices(0).first(std::min(static_cast<std::size_t>(most), sampler.indices(0).size())))
    keys.push_back({.seed = options.trainer.seed, .epoch = 1, .index = index, .extents = extents});
  vision::write_png(vision::batch_sheet(dataset, keys), options.user_data.show_batch);
}

}  // namespace lockstep::train
