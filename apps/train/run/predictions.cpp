// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/predictions.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "platform/ranks/bootstrap.hpp"
#include "vision/codec/codec.hpp"
#include "vision/image/draw.hpp"
#include "vision/show_batch.hpp"
#include "workloads/bundled.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t most_shown = 16;  // pictures on a sheet
constexpr std::string_view default_folder = "runs/predict";

/// Returns the folder that gets the predictions. @throws Error{io} if it cannot be made
fs::path output_folder(const Options& options) {
  fs::path folder = options.save_dir == default_save_dir ? fs::path(default_folder) : fs::path(options.save_dir);
  std::error_code error;
  fs::create_directories(options.save_txt ? folder / "labels" : folder, error);
  if (error) throw Error(ErrorCode::io, "cannot make the folder " + folder.string() + ": " + error.message());
  return folder;
}

/// @throws Error{io} that names the file
void write_text(const std::string& text, const std::string& file) {
  std::ofstream out(file);
  if (!(out << text) || !out.flush()) throw Error(ErrorCode::io, "cannot write " + file + ": " + std::strerror(errno));
}

/// Returns a name for the picture of each sample: its own with the suffix .png, and a number if an earlier one has it.
std::vector<std::string> names_of(const vision::Source& source) {
  std::map<std::string, int> uses;
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const std::string stem = fs::path(source.place(i)).stem().string();
    const int use = ++uses[stem];
    names.push_back(stem + (use > 1 ? '-' + std::to_string(use) : std::string()) + ".png");
  }
  return names;
}

/// Draws what was found on a picture, and writes its file of labels if there is one and the user wants it.
void write_sample(const vision::Source& source, const Predictions::Sample& sample, const fs::path& file,
                  const Options& options) {
  std::vector<std::byte> bytes;
  vision::Image picture;
  source.read(sample.index, bytes);
  source.decode(sample.index, bytes, {}, picture);
  if (options.save_txt) {
    const auto lines = sample.finding->label_lines(picture.width, picture.height, options.save_conf);
    if (lines) write_text(*lines, (file.parent_path() / "labels" / file.stem()).string() + ".txt");
  }
  sample.finding->draw(source.class_names(), picture);
  vision::write_png(picture, file);
  if (const vision::Image* mask = sample.finding->mask()) {
    const fs::path folder = file.parent_path() / "masks";
    fs::create_directories(folder);
    const vision::Palette palette = vision::class_palette();
    vision::write_png(*mask, (folder / file.stem()).string() + ".png", &palette);
  }
}

/// Returns the numbers of pictures in COCO's files: those that their names are, as COCO's, or their positions from 1 if
/// a name is no number or two are the same.
std::vector<std::int64_t> image_ids_of(const vision::Source& source) {
  std::vector<std::int64_t> ids;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const std::string stem = fs::path(source.place(i)).stem().string();
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), id);
    if (error != std::errc() || end != stem.data() + stem.size() || id < 0 || !seen.insert(id).second) break;
    ids.push_back(id);
  }
  if (std::ssize(ids) == source.size()) return ids;
  ids.resize(static_cast<std::size_t>(source.size()));
  std::iota(ids.begin(), ids.end(), 1);
  return ids;
}

/// Returns the entries of a picture for predictions.json with commas between them; nothing where there is no such file.
std::optional<std::string> coco_entries(const vision::Source& source, const Predictions::Sample& sample,
                                        std::int64_t image_id) {
  Json entries = Json::array();
  if (!sample.finding->add_coco(image_id, source.category_ids(), entries)) return {};
  std::string text;
  for (const Json& entry : entries) text += (text.empty() ? "" : ", ") + entry.dump();
  return text;
}

std::string line_of(const vision::Source& source, const Predictions::Sample& sample, const fs::path& picture) {
  Json line = {{"path", source.place(sample.index)}};
  sample.finding->add_to(line, source.class_names());
  line["picture"] = picture.string();
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string line_of_bad(const vision::Source& source, std::int64_t index) {
  const Json line = {{"path", source.place(index)}, {"error", "cannot be decoded"}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Sorts the lines of all ranks, which begin with the number of their sample and a space, and leaves these out. Empty
/// lines are left out, too.
std::string sorted(const std::vector<std::string>& of_ranks, std::string_view between = "\n") {
  std::map<std::int64_t, std::string> lines;
  for (const std::string& text : of_ranks) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::size_t space = text.find(' ', begin);
      lines[std::stoll(text.substr(begin, space - begin))] = text.substr(space + 1, end - space - 1);
      begin = end + 1;
    }
  }
  std::string result;
  for (const auto& [index, line] : lines)
    if (!line.empty()) result.append(result.empty() ? "" : between).append(line);
  return result;
}

/// Returns pictures of some of the samples, evenly chosen, with what a model takes them for.
vision::Image sheet_of(const vision::PictureDataset& pictures, const std::vector<Predictions::Sample>& samples,
                       std::uint64_t seed) {
  std::vector<data::SampleKey> keys;
  std::vector<vision::Caption> captions;
  const std::size_t shown = std::min<std::size_t>(most_shown, samples.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Predictions::Sample& sample = samples[i * samples.size() / shown];
    keys.push_back({.seed = seed, .index = sample.index});
    captions.push_back(
        sample.finding->caption(pictures.source().class_names(), pictures.source().annotation(sample.index)));
  }
  return vision::batch_sheet(pictures, keys, captions);
}

}  // namespace

void Predictions::add(const nn::Prediction& prediction, const data::Batch& batch) {
  for (std::int64_t i = 0; i < batch.samples.value; ++i) {
    const std::int64_t index = batch.ids[static_cast<std::size_t>(i)];
    if (index % stride_ == 0) samples_.push_back({index, find_(prediction, batch, i)});
  }
}

workloads::Find finder(const RunContext& run) {
  const workloads::PictureTask* task = workloads::picture_task(run.model.workload.name);
  if (task == nullptr || task->find == nullptr) return {};
  const data::Dataset& data = *run.data.sets.test;
  return task->find({.graph = run.model.graph,
                     .tensors = data.tensors(),
                     .classes = data.classes(),
                     .inputs = workloads::input_sizes(data)},
                    run.options.find);
}

Predictions& add_predictions(const RunContext& run, trainer::Trainer& trainer, std::int64_t stride) {
  workloads::Find find = finder(run);
  if (!find)
    throw Error(ErrorCode::unsupported, "--predict: nothing reads " + run.model.workload.about +
                                            " from the outputs of the model '" + run.model.graph.name() + "'")
        .on_every_rank();
  auto predictions = std::make_unique<Predictions>(std::move(find), stride);
  Predictions& kept = *predictions;
  trainer.add_metric(std::move(predictions));
  return kept;
}

void show_predictions(const RunContext& run, trainer::Trainer& trainer) {
  const auto pictures = std::dynamic_pointer_cast<const vision::PictureDataset>(run.data.sets.test);
  if (run.folder.tensorboard.empty() || !run.data.pictures || pictures == nullptr || !finder(run)) return;
  // Rank 0 has about as many samples of the test set as each other rank.
  const std::int64_t stride = std::max<std::int64_t>(1, pictures->size() / (most_shown * run.cluster.world.size()));
  add_predictions(run, trainer, stride).show([&run, &trainer, pictures](const auto& samples) {
    if (!run.console.is_shown() || samples.empty()) return;
    try {
      const vision::Image sheet = sheet_of(*pictures, samples, run.options.trainer.seed);
      run.console.picture({.step = trainer.state().global_step,
                           .tag = "val/predictions",
                           .width = sheet.width,
                           .height = sheet.height,
                           .png = vision::encode_png(sheet)});
    } catch (const Error& error) {  // training does not end because of a picture of it
      run.console.notice("no picture of predictions for --tensorboard: " + error.message());
    }
  });
}

std::string write_predictions(const RunContext& run, const Predictions& predictions) {
  const RankSet& ranks = run.cluster.world.group();
  const Phase phase(ranks, "writing the predictions", Phase::Kind::work);
  const PicturePart& part = *run.data.pictures->val;
  const vision::Source& source = *part.source;
  fs::path folder;
  std::string mine;
  std::string of_coco;
  agree(ranks, [&] {
    folder = output_folder(run.options);
    const std::vector<std::string> names = names_of(source);
    const std::vector<std::int64_t> ids = image_ids_of(source);
    for (const Predictions::Sample& sample : predictions.samples()) {
      const auto index = static_cast<std::size_t>(sample.index);
      mine += std::to_string(sample.index) + ' ';
      if (part.bad_samples->contains(sample.index)) {
        mine += line_of_bad(source, sample.index) + '\n';
        continue;
      }
      const fs::path picture = folder / names[index];
      write_sample(source, sample, picture, run.options);
      mine += line_of(source, sample, picture) + '\n';
      if (const auto entries = coco_entries(source, sample, ids[index]))
        of_coco += std::to_string(sample.index) + ' ' + *entries + '\n';
    }
  });
  const std::vector<std::string> all = gather_strings(ranks, mine, {0});
  const std::vector<std::string> all_of_coco = gather_strings(ranks, of_coco, {0});
  const std::string file = (folder / "predictions.jsonl").string();
  agree_on_rank_zero(ranks, [&] {
    write_text(sorted(all) + '\n', file);
    const bool has_coco = std::ranges::any_of(all_of_coco, [](const std::string& text) { return !text.empty(); });
    if (has_coco) write_text("[" + sorted(all_of_coco, ",\n") + "]\n", (folder / "predictions.json").string());
  });
  return std::to_string(source.size()) + (source.size() == 1 ? " picture" : " pictures") + " predicted: " + file + '\n';
}

}  // namespace lockstep::train
