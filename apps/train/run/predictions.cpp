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
#include "vision/image/draw.hpp"
#include "vision/show_batch.hpp"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_scores = 5;
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
  const fs::path folder = options.save_dir == default_save_dir ? fs::path(default_folder) : fs::path(options.save_dir);
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
  vision::draw_label(label_text(source.class_names(), best), 0, 0, vision::class_color(best.label), picture);
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

}  // namespace

void Predictions::add(const nn::Prediction& prediction, const data::Batch& batch) {
  const Buffer& logits = prediction.outputs[output_];
  for (std::int64_t i = 0; i < batch.samples.value; ++i) {
    const std::int64_t first = i * classes_;
    samples_.push_back({batch.ids[static_cast<std::size_t>(i)],
                        logits.dtype == DType::float64
                            ? scores_of(static_cast<const double*>(logits.data) + first, classes_)
                            : scores_of(static_cast<const float*>(logits.data) + first, classes_)});
  }
}

const Predictions& add_predictions(const RunContext& run, trainer::Trainer& trainer) {
  const nn::Graph& graph = run.model.graph;
  const std::int64_t classes = run.data.sets.test->classes();
  const auto output = std::ranges::find_if(graph.outputs(), [&](const nn::Output& one) {
    const ops::Shape shape = graph.shape(one.value);
    return shape.channels == classes && shape.height * shape.width == 1;
  });
  if (output == graph.outputs().end())
    throw Error(ErrorCode::unsupported, "--predict: the model '" + graph.name() +
                                            "' has no output with a number for "
                                            "each of the " +
                                            std::to_string(classes) + " classes")
        .on_every_rank();
  auto predictions = std::make_unique<Predictions>(static_cast<std::size_t>(output - graph.outputs().begin()), classes);
  const Predictions& kept = *predictions;
  trainer.add_metric(std::move(predictions));
  return kept;
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
