// SPDX-License-Identifier: Apache-2.0
#include "apps/train/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "apps/common/command_line.hpp"
#include "apps/common/version.hpp"
#include "lockstep/backends/compressed.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep::train {
namespace {

namespace po = boost::program_options;

constexpr std::array<std::string_view, 2> devices = {"cpu", "cuda"};
constexpr std::array<std::string_view, 2> op_libraries = {"onednn", "reference"};
constexpr std::array<std::string_view, 2> initial_values = {"broadcast", "compare"};

template <typename T>
auto value(const char* name) {
  return po::value<T>()->value_name(name);
}

auto choice(std::span<const std::string_view> words) { return po::value<std::string>()->value_name(joined(words)); }

po::options_description describe(const std::string& program, const Registry& registry) {
  po::options_description text("Trains a model on all ranks: mpirun -np 2 " + program + " [options]", 110);
  // clang-format off
  text.add_options()
      ("help", "print this text and end")
      ("version", "print the commit and every library's version and end")
      ("config", value<std::string>("FILE"), "read options from FILE, a line 'name = value' each; the command line goes before it")
      ("dataset", choice(registry.datasets.names()), ("what to learn (default " + registry.dataset + ")").c_str())
      ("data-dir", value<std::string>("DIR"), "where the files of a data set are, as mnist's and cifar10's")
      ("model", choice(registry.models.names()), ("(default " + registry.model + ")").c_str())
      ("epochs", value<std::int64_t>("N"), "passes over the training set (default by model)")
      ("steps", value<std::int64_t>("N"), "stop after N steps, in which the learning rate falls as it else does in all epochs (default 0: never)")
      ("batch", value<std::int64_t>("N"), "samples of a step, the total over all ranks (default by model)")
      ("lr", value<double>("X"), "peak learning rate (default by model)")
      ("warmup", value<double>("E"), "epochs, or a fraction of one, in which the learning rate grows linearly to its peak (default by model)")
      ("momentum", value<double>("X"), "(default by model)")
      ("nesterov", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "Nesterov's momentum (default by model)")
      ("weight-decay", value<double>("X"), "(default by model)")
      ("decay-vectors", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "weight decay also on biases and on what normalization scales and shifts by (default yes)")
      ("freeze", value<std::string>("NAME,..."), "parameters that stay as they are: names, or what names begin with up to a dot, as layer1")
      ("seed", value<std::uint64_t>("N"), "of initial weights, order of samples and drawn data (default 1)")
      ("initial", choice(initial_values), "how all ranks come to the same initial weights: rank 0's are broadcast, or all are compared (default broadcast)")
      ("threads", value<int>("N"), "compute threads of each rank (default: its share of the processors)")
      ("workers", value<int>("N"), "threads of each rank that prepare batches; 0 prepares them in between (default 1)")
      ("bucket-mb", value<double>("X"), "MiB of gradients that are all-reduced together (default 4)")
      ("compress", choice(backends::compression_names()), "what gradients are rounded to on their way between ranks (default none)")
      ("algorithm", choice(backends::method_names()), "of the all-reduce; auto takes the best for each size, mpi is the MPI library's own (default auto)")
      ("tuning", value<std::string>("FILE"), "what is best, as comm-bench --tune found it; by a cost model unless given")
      ("explain", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "print which algorithm each bucket of gradients is all-reduced by, and why")
      ("explain-step", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "print what each operator of a step does, by which kernel, how long it takes, and how near that is to what the machine can do")
      ("progress-thread", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "a thread moves gradients while layers compute, where there is a processor to spare (default no: polls between layers)")
      ("wait", choice(wait_names()), "what a rank does while it waits; auto spins while there is a processor for each rank, then yields, then sleeps (default auto)")
      ("check", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "ranks compare what they call before each operation of --algorithm mpi; the others look anyway, so there it changes nothing (default no)")
      ("device", choice(devices), "(default cpu)")
      ("ops", choice(op_libraries), "who computes the layers (default onednn; reference for float64)")
      ("exact", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "compute convolutions as sums of products, without Winograd's transforms, which are faster and round more (default no)")
      ("kernels", value<std::string>("FILE"), "compute each convolution by what is fastest here, as measured: what FILE lacks is measured first, at most 10 s, and added (by a fixed rule unless given)")
      ("precision", choice(precision_names()), "of values and products; with bf16 and mixed-fp16 weights, their gradients and the optimizer's state stay float32 (default float32)")
      ("timeout", value<double>("S"), "seconds without progress after which an all-reduce fails (default 300)")
      ("shards", value<int>("V"), "cut each step into V parts, at least as many as ranks, and add their gradients in one order: the same bits on any number of ranks, nodes and threads (default 0: each rank's samples are one part)")
      ("sync-bn", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "batch norm by mean and variance of all samples of a step, not of each rank's, or shard's (default no)")
      ("accumulate", value<int>("N"), "micro-batches into which a rank's samples of a step are cut: less memory, one update (default 1)")
      ("clip-norm", value<double>("X"), "shorten gradients whose norm, over all parameters, is above X (default 0: never)")
      ("ema", value<double>("D"), "average weights with this decay, as 0.999, and evaluate the average (default 0: no average)")
      ("zero", po::value<bool>()->implicit_value(true)->value_name("[yes|no]"), "each rank updates a part of the weights and holds the optimizer's state of that part only; less memory for the same result (default no)")
      ("loss-scale", value<double>("X"), "multiply gradients by X until the update; a step whose gradients are not finite is skipped then, and X halved; it is doubled after 2000 steps without (default 0: none, such a step ends the run; 65536 with --precision mixed-fp16)")
      ("without-pass", choice(nn::Passes::names()), "leave out what changes how a step is computed and not what; several with commas between")
      ("eval-interval", value<std::string>("N|never"), "evaluate after every Nth epoch and at the end, or never (default 1)")
      ("log-every", value<std::int64_t>("N"), "steps from one step event in --metrics to the next (default 50)")
      ("metrics", value<std::string>("FILE"), "append a JSON line for each event to FILE")
      ("trace", value<std::string>("FILE"), "write what ran when, on every rank, to FILE for chrome://tracing or ui.perfetto.dev");
  // clang-format on
  return text;
}

/// What each rank may have for itself: where its files are, what it shows, and how it goes about its share of the work.
constexpr std::array<std::string_view, 11> may_differ = {
    "data-dir",        "tuning",  "explain",   "threads", "workers", "wait",
    "progress-thread", "timeout", "log-every", "metrics", "trace"};

/// The options that were given, each with what holds where it was not. It takes note of those that are asked for and
/// must be the same on all ranks.
class Given {
 public:
  explicit Given(const po::variables_map& values) : values_(values) {}

  [[nodiscard]] bool has(const char* name) const { return values_.count(name) > 0; }
  template <typename T>
  [[nodiscard]] T get(const char* name, T otherwise) const {
    T value = has(name) ? values_[name].as<T>() : otherwise;
    if (std::find(may_differ.begin(), may_differ.end(), name) == may_differ.end()) {
      std::ostringstream text;
      text << std::boolalpha << value;
      settings_.push_back({std::string("--") + name, text.str()});
    }
    return value;
  }
  [[nodiscard]] const std::vector<Setting>& settings() const { return settings_; }
  template <typename T, typename Rule>
  [[nodiscard]] T get(const char* name, T otherwise, const Rule& holds, std::string_view rule) const {
    const T value = get(name, otherwise);
    require(holds(value), name, value, rule);
    return value;
  }
  [[nodiscard]] std::string choose(const char* name, std::span<const std::string_view> choices,
                                   std::string_view otherwise) const {
    auto word = get(name, std::string(otherwise));
    require_choice(name, word, choices);
    return word;
  }

 private:
  const po::variables_map& values_;
  mutable std::vector<Setting> settings_;
};

constexpr auto positive = [](auto value) { return value > 0 && std::isfinite(static_cast<double>(value)); };
constexpr auto not_negative = [](auto value) { return value >= 0 && std::isfinite(static_cast<double>(value)); };

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  return words;
}

/// @return epochs; 0 for "never"
std::int64_t eval_interval(const std::string& text) {
  if (text == "never") return 0;
  std::int64_t epochs = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), epochs);
  require(error == std::errc() && end == text.data() + text.size() && epochs > 0, "eval-interval", text,
          "write a number of epochs, at least 1, or never");
  return epochs;
}

trainer::TrainerOptions trainer_options(const Given& given, const nn::Defaults& defaults, const Precision& precision) {
  trainer::TrainerOptions options;
  options.precision = precision.reals;
  options.epochs = given.get("epochs", defaults.epochs, positive, "at least 1 epoch is needed");
  options.steps = given.get<std::int64_t>("steps", 0, not_negative, "it cannot be negative");
  options.batch = {given.get("batch", defaults.batch, positive, "at least 1 sample is needed")};
  options.schedule = {.peak = given.get("lr", defaults.learning_rate, positive, "the learning rate must be positive"),
                      .decay = defaults.decay};
  const auto below_one = [](double value) { return value >= 0 && value < 1; };
  options.sgd = {
      .momentum = given.get("momentum", defaults.momentum, below_one, "it must be in 0 … 1, 1 excluded"),
      .nesterov = given.get("nesterov", defaults.nesterov),
      .weight_decay = given.get("weight-decay", defaults.weight_decay, not_negative, "it cannot be negative"),
      .decay_vectors = given.get("decay-vectors", true),
      .frozen = words_of(given.get<std::string>("freeze", ""))};
  options.shards = given.get("shards", 0, not_negative, "it cannot be negative");
  options.sync_batch_norm = given.get("sync-bn", false);
  options.accumulate = given.get("accumulate", 1, positive, "at least 1 micro-batch is needed");
  options.clip_norm = given.get("clip-norm", 0.0, not_negative, "it cannot be negative");
  options.ema = given.get("ema", 0.0, below_one, "it must be in 0 … 1, 1 excluded");
  options.zero = given.get("zero", false);
  options.loss_scale.initial = given.get("loss-scale", precision.loss_scale, not_negative, "it cannot be negative");
  for (const std::string& pass : words_of(given.get<std::string>("without-pass", ""))) {
    require_choice("without-pass", pass, nn::Passes::names());
    options.passes.leave_out(pass);
  }
  options.seed = given.get<std::uint64_t>("seed", 1);
  options.initial = given.choose("initial", initial_values, "broadcast") == "compare" ? InitialValues::compare
                                                                                      : InitialValues::broadcast;
  options.workers = given.get("workers", 1, not_negative, "it cannot be negative");
  const double bucket_mb = given.get("bucket-mb", 4.0, positive, "a bucket must have a positive size");
  options.bucket = {std::max<std::int64_t>(1, std::llround(bucket_mb * 1024 * 1024))};
  options.log_every = given.get<std::int64_t>("log-every", 50, positive, "at least 1 step is needed");
  options.eval_interval = eval_interval(given.get<std::string>("eval-interval", "1"));
  return options;
}

/// What would let the bits depend on the number of ranks.
void refuse_beside_shards(const Options& options, const collectives::Selection* selection) {
  const std::string shards = "--shards " + std::to_string(options.trainer.shards);
  const std::string algorithm(name(options.method));
  if (selection == nullptr || (selection->forced && !is_canonical(*selection))) {
    throw UsageError(shards + " with --algorithm " + algorithm +
                     ": it adds in an order of its own; leave it out, or choose --algorithm auto");
  }
  if (options.compress != "none") {
    throw UsageError(shards + " with --compress " + options.compress +
                     ": how often a sum is rounded on the wire depends on the number of ranks");
  }
}

/// What each option allows but not all of them together.
void refuse_contradictions(const Given& given, const Options& options, data::Directory directory) {
  if (options.ops == "onednn" && options.trainer.precision == DType::float64) {
    throw UsageError("--ops onednn does not compute in float64: leave it out, or choose --precision float32");
  }
  if (options.compress != "none" && options.trainer.precision == DType::float64) {
    throw UsageError("--compress " + options.compress + " is for float32: gradients in float64 would go uncompressed");
  }
  if (!options.kernels.empty() && (options.exact || options.ops == "reference")) {
    throw UsageError(std::string("--kernels has no meaning with --") + (options.exact ? "exact" : "ops reference") +
                     ", which leaves one way to compute each operator: leave one of the two out");
  }
  const std::string algorithm(name(options.method));
  const collectives::Selection* selection = backends::selection_of(options.method);
  if (options.compress != "none" && selection != nullptr && is_canonical(*selection)) {
    throw UsageError("--compress " + options.compress + " with --algorithm " + algorithm +
                     ": how often a sum is rounded on the wire depends on the number of ranks, and so would the bits, "
                     "which it keeps the same");
  }
  if (options.trainer.shards > 0) refuse_beside_shards(options, selection);
  if (options.trainer.zero && selection != nullptr && is_canonical(*selection)) {
    throw UsageError("--zero with --algorithm " + algorithm +
                     ": a reduce-scatter adds in an order that depends on the number of ranks, and so would the bits, "
                     "which that algorithm keeps the same");
  }
  if (options.trainer.sgd.nesterov && options.trainer.sgd.momentum == 0) {
    throw UsageError("--nesterov needs a momentum above 0");
  }
  if (given.has("data-dir") && directory == data::Directory::none) {
    throw UsageError("--data-dir has no meaning with --dataset " + options.dataset +
                     ", which the program draws by itself; did you mean --dataset mnist or cifar10?");
  }
  if (!given.has("data-dir") && directory == data::Directory::required) {
    throw UsageError("--dataset " + options.dataset + " needs --data-dir, the folder with its files");
  }
  if (given.has("tuning") && (selection == nullptr || selection->forced)) {
    throw UsageError("--tuning has no meaning with --algorithm " + algorithm + "; did you mean --algorithm auto?");
  }
  if (options.explain && selection == nullptr) {
    throw UsageError("--explain has no meaning with --algorithm mpi: how the MPI library chooses is not known here");
  }
  if (options.device == "cuda") {
    throw UsageError(
        "--device cuda: the trainer's own operators for GPUs come later. What can be had on GPUs today: ProcessGroup "
        "and "
        "DataParallel with Device::cuda, for a program with layers of its own, and comm-bench --device cuda");
  }
}

Options checked(const Given& given, const Registry& registry) {
  Options options;
  options.dataset = given.choose("dataset", registry.datasets.names(), registry.dataset);
  options.data_dir = given.get<std::string>("data-dir", "");
  options.model = given.choose("model", registry.models.names(), registry.model);
  options.compress = given.choose("compress", backends::compression_names(), "none");
  options.method = backends::parse_method(given.choose("algorithm", backends::method_names(), "auto"));
  options.tuning = given.get<std::string>("tuning", "");
  options.explain = given.get("explain", false);
  options.explain_step = given.get("explain-step", false);
  options.progress_thread = given.get("progress-thread", false);
  options.wait = given.choose("wait", wait_names(), "auto");
  options.check = given.get("check", false);
  options.device = given.choose("device", devices, "cpu");
  options.precision = precision_of(given.choose("precision", precision_names(), "float32"));
  const bool wide = options.precision.reals == DType::float64;
  options.ops = given.choose("ops", op_libraries, wide ? "reference" : "onednn");
  options.exact = given.get("exact", false);
  options.kernels = given.get<std::string>("kernels", "");
  options.timeout_seconds = given.get("timeout", 300.0, positive, "it must be positive");
  options.threads = given.get("threads", 0, not_negative, "it cannot be negative");
  options.metrics = given.get<std::string>("metrics", "");
  options.trace = given.get<std::string>("trace", "");
  const nn::Defaults& defaults = registry.models.defaults(options.model);
  options.trainer = trainer_options(given, defaults, options.precision);
  options.warmup_epochs = given.get("warmup", defaults.warmup_epochs, not_negative, "it cannot be negative");
  options.warmup_given = given.has("warmup");
  refuse_contradictions(given, options, registry.datasets.directory(options.dataset));
  options.settings = given.settings();
  return options;
}

}  // namespace

CommandLine parse_options(int argc, char** argv, const Registry& registry) {
  const std::string program(program_name(argc, argv));
  const po::options_description description = describe(program, registry);
  const po::variables_map values = read_command_line(argc, argv, description);
  if (values.count("help") > 0) {
    std::ostringstream text;
    text << description
         << "\nExit codes: 0 success; 1 an error, with the rank it happened on; 2 wrong usage;\n3 stopped at the end "
            "of a step by SIGINT, SIGTERM or SIGUSR1. A second signal, or one before\ntraining has begun, ends the "
            "program at once. mpirun passes SIGUSR1 on; after a Ctrl-C or\nSIGTERM it sends the ranks SIGTERM in a "
            "second, kills them after another, and returns 1:\nmpirun --mca odls_base_sigkill_timeout SECONDS makes "
            "both longer.\n";
    return {{}, text.str()};
  }
  if (values.count("version") > 0) return {{}, version_text(program)};
  CommandLine command_line{checked(Given(values), registry), {}};
  command_line.options.program = program;
  return command_line;
}

}  // namespace lockstep::train
