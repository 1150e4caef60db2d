// SPDX-License-Identifier: Apache-2.0
#include "apps/train/run/predictions.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/nearest.hpp"
#include "base/wrapped.hpp"
#include "platform/mpi/bootstrap.hpp"
#include "vision/image/codec.hpp"
#include "vision/image/draw.hpp"
#include "vision/show_batch.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_scores = 5;
constexpr std::int64_t most_shown = 16;  // pictures on a sheet
constexpr std::string_view default_folder = "runs/predict";

/// Returns the likeliest classes of a sample, by softmax. Of equal logits the first is the likelier.
template <typename Real>
std::vector<Predictions::Score> scores_of(const Real* logits, std::int64_t classes) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
  std::vector<std::int32_t> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), 0);
  const std::size_t kept = std::min(most_scores, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
      [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  std::vector<Predictions::Score> scores;
  for (std::size_t i = 0; i < kept; ++i) scores.push_back({order[i], std::exp(logits[order[i]] - largest) / sum});
  return scores;
}

/// Returns the folder that gets the predictions. @throws Error{io} if it cannot be made
fs::path output_folder(const Options& options) {
  fs::path folder = options.save_dir == default_save_dir ? fs::path(default_folder) : fs::path(options.save_dir);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(ErrorCode::io, "cannot make the folder " + folder.string() + ": " + error.message());
  return folder;
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

std::string label_text(const std::vector<std::string>& class_names, const Predictions::Score& best) {
  return class_names[static_cast<std::size_t>(best.label)] + format_text(" %.1f %%", 100 * best.score);
}

void draw_sample(const vision::Source& source, const Predictions::Sample& sample, const fs::path& file) {
  std::vector<std::byte> bytes;
  vision::Image picture;
  source.read(sample.index, bytes);
  source.decode(sample.index, bytes, {}, picture);
  const Predictions::Score& best = sample.scores.front();
  const vision::Caption label{label_text(source.class_names(), best), vision::class_color(best.label)};
  if (vision::text_width(label.text) > picture.width) return vision::write_png(with_caption(picture, label), file);
  vision::draw_label(label.text, 0, 0, label.color, picture);
  vision::write_png(picture, file);
}

std::string line_of(const vision::Source& source, const Predictions::Sample& sample, const fs::path& picture) {
  Json labels = Json::array();
  for (const Predictions::Score& score : sample.scores)
    labels.push_back({{"class", score.label},
                      {"name", source.class_names()[static_cast<std::size_t>(score.label)]},
                      {"score", std::round(1e6 * score.score) / 1e6}});
  const Json line = {{"path", source.place(sample.index)}, {"labels", labels}, {"picture", picture.string()}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string line_of_bad(const vision::Source& source, std::int64_t index) {
  const Json line = {{"path", source.place(index)}, {"error", "cannot be decoded"}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Sorts the lines of all ranks, which begin with the number of their sample and a space, and leaves these out.
std::string sorted(const std::vector<std::string>& of_ranks) {
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
  for (const auto& [index, line] : lines) result += line + '\n';
  return result;
}

/// Returns the output of a model with a number for each class; the end of the outputs if there is none.
auto logits_of(const nn::Graph& graph, std::int64_t classes) {
  return std::ranges::find_if(graph.outputs(), [&](const nn::Output& one) {
    const ops::Shape shape = graph.shape(one.value);
    return shape.channels == classes && shape.height * shape.width == 1;
  });
}

/// Returns pictures of some of the samples, evenly chosen, with what a model takes them for: green where it is right,
/// and red where it is wrong.
vision::Image sheet_of(const vision::PictureDataset& pictures, const std::vector<Predictions::Sample>& samples,
                       std::uint64_t seed) {
  constexpr vision::Color right{60, 170, 80};
  constexpr vision::Color wrong{200, 50, 50};
  const std::vector<std::string>& names = pictures.source().class_names();
  std::vector<data::SampleKey> keys;
  std::vector<vision::Caption> captions;
  const std::size_t shown = std::min<std::size_t>(most_shown, samples.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Predictions::Sample& sample = samples[i * samples.size() / shown];
    const std::int32_t label = pictures.source().annotation(sample.index).label;
    const Predictions::Score& best = sample.scores.front();
    keys.push_back({.seed = seed, .index = sample.index});
    captions.push_back({names[static_cast<std::size_t>(best.label)] + format_text(" %.0f%%", 100 * best.score),
                        label == best.label ? right : wrong});
  }
  return vision::batch_sheet(pictures, keys, captions);
}

}  // namespace

void Predictions::add(const nn::Prediction& prediction, const data::Batch& batch) {
  const Buffer& logits = prediction.outputs[output_];
  for (std::int64_t i = 0; i < batch.samples.value; ++i) {
    const std::int64_t first = i * classes_;
    if (batch.ids[static_cast<std::size_t>(i)] % stride_ != 0) continue;
    samples_.push_back({batch.ids[static_cast<std::size_t>(i)],
                        logits.dtype == DType::float64
                            ? scores_of(static_cast<const double*>(logits.data) + first, classes_)
                            : scores_of(static_cast<const float*>(logits.data) + first, classes_)});
  }
}

Predictions& add_predictions(const RunContext& run, trainer::Trainer& trainer) {
  const nn::Graph& graph = run.model.graph;
  const std::int64_t classes = run.data.sets.test->classes();
  const auto output = logits_of(graph, classes);
  if (output == graph.outputs().end())
    throw Error(ErrorCode::unsupported, "--predict: the model '" + graph.name() +
                                            "' has no output with a number for "
                                            "each of the " +
                                            std::to_string(classes) + " classes")
        .on_every_rank();
  auto predictions = std::make_unique<Predictions>(static_cast<std::size_t>(output - graph.outputs().begin()), classes);
  Predictions& kept = *predictions;
  trainer.add_metric(std::move(predictions));
  return kept;
}

void show_predictions(const RunContext& run, trainer::Trainer& trainer) {
  const auto pictures = std::dynamic_pointer_cast<const vision::PictureDataset>(run.data.sets.test);
  const nn::Graph& graph = run.model.graph;
  if (run.folder.tensorboard.empty() || pictures == nullptr ||
      logits_of(graph, pictures->classes()) == graph.outputs().end())
    return;
  // Rank 0 has about as many samples of the test set as each other rank.
  const std::int64_t stride = std::max<std::int64_t>(1, pictures->size() / (most_shown * run.cluster.world.size()));
  add_predictions(run, trainer).show_each(stride, [&run, &trainer, pictures](const auto& samples) {
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
  const MpiGroup& ranks = run.cluster.world.group();
  const Phase phase(ranks, "writing the predictions", Phase::Kind::work);
  const PicturePart& part = *run.data.pictures->val;
  fs::path folder;
  std::string mine;
  agree(ranks, [&] {
    folder = output_folder(run.options);
    const std::vector<std::string> names = names_of(*part.source);
    for (const Predictions::Sample& sample : predictions.samples()) {
      mine += std::to_string(sample.index) + ' ';
      if (part.bad_samples->contains(sample.index)) {
        mine += line_of_bad(*part.source, sample.index) + '\n';
        continue;
      }
      const fs::path picture = folder / names[static_cast<std::size_t>(sample.index)];
      draw_sample(*part.source, sample, picture);
      mine += line_of(*part.source, sample, picture) + '\n';
    }
  });
  const std::vector<std::string> all = gather_strings(ranks, mine, {0});
  const std::string file = (folder / "predictions.jsonl").string();
  agree_on_rank_zero(ranks, [&] {
    std::ofstream out(file);
    if (!(out << sorted(all)) || !out.flush())
      throw Error(ErrorCode::io, "cannot write " + file + ": " + std::strerror(errno));
  });
  return std::to_string(part.source->size()) + " pictures predicted: " + file + '\n';
}

}  // namespace lockstep::train
