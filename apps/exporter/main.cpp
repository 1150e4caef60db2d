// SPDX-License-Identifier: Apache-2.0
// lockstep-export writes the model of a run in a format of other programs. Exit codes: ExitCode in
// lockstep/mpi/world.hpp.
#include <exception>
#include <filesystem>
#include <system_error>

#include "apps/cli/help.hpp"
#include "apps/cli/run_app.hpp"
#include "base/nearest.hpp"
#include "mpi/print.hpp"
#include "nn/onnx/onnx.hpp"
#include "state/safetensors_file.hpp"
#include "state/verify.hpp"

namespace lockstep::exporter {
namespace {

using namespace cli;
namespace fs = std::filesystem;

constexpr const char* model_file = "model.safetensors";

Program describe() {
  return {
      .name = "lockstep-export",
      .synopsis = "lockstep-export RUN --onnx FILE",
      .about =
          "Writes the model of a run of train as ONNX, in float32. The input \"images\" is N x C x H x W, the pixels "
          "of N images divided by 255, which the file normalizes as in training; the output \"logits\" of a "
          "classifier is N x classes. N is free. The metadata have the names of the classes.\n\nRUN is the folder "
          "of a run, whose last checkpoint is meant, of a checkpoint, such as runs/train/checkpoints/best, or a "
          "file model.safetensors.",
      .groups = {{"Options",
                  {row("run", Text{"RUN"}, no_default, "the run, as RUN"),
                   row("onnx", Text{"FILE"}, no_default, "write the model to FILE, which is replaced")}},
                 general_options()}};
}

/// Returns the file with the weights that a user means. @throws Error{io} if there is none, as find_checkpoint
fs::path weights_of(const std::string& run) {
  fs::path path = fs::absolute(run);
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  return state::find_checkpoint(path.string(), {}).path.value() / model_file;
}

/// Reads the tensors of a file as float32.
class Weights {
 public:
  explicit Weights(const fs::path& path) : reader_(path, state::ForeignTensors::describe) {}

  [[nodiscard]] const state::SafetensorsReader& reader() const { return reader_; }
  /// @throws Error{mismatch} that names the tensor if the file lacks it in the shape that the model has
  [[nodiscard]] std::vector<float> operator()(const TensorSlot& slot) const {
    const int index = reader_.header().index_of(slot.name);
    if (index < 0) refuse(slot, "lacks");
    const state::StoredTensor& stored = reader_.header().tensors()[static_cast<std::size_t>(index)];
    if (stored.extents != slot.shape || !stored.foreign.empty()) refuse(slot, "has another form of");
    std::vector<float> values(static_cast<std::size_t>(slot.count.value));
    if (stored.dtype == DType::float32) {
      reader_.read(index, {0}, Buffer(values));
    } else if (stored.dtype == DType::float64) {
      std::vector<double> doubles(values.size());
      reader_.read(index, {0}, Buffer(doubles));
      std::ranges::transform(doubles, values.begin(), [](double value) { return static_cast<float>(value); });
    } else {
      refuse(slot, "has other numbers than float32 or float64 in");
    }
    return values;
  }

 private:
  [[noreturn]] void refuse(const TensorSlot& slot, const std::string& what) const {
    throw Error(ErrorCode::mismatch, "'" + echo(reader_.path().string(), 400) + "' " + what + " the tensor '" +
                                         echo(slot.name) + "' " + state::extents_text(slot.shape) +
                                         " of its model: export a checkpoint as train has saved it");
  }

  state::SafetensorsReader reader_;
};

/// @throws Error{unsupported} if the file does not say of which model it is
nn::ModelDescription described(const state::SafetensorsReader& reader) {
  const std::string path = reader.path().string();
  if (auto description = nn::description_of(reader.header().metadata(), path)) return *std::move(description);
  throw Error(ErrorCode::unsupported,
              "'" + echo(path, 400) +
                  "' does not say of which model it is, because an older lockstep or another program has written it; "
                  "continue its run with train --resume PATH, which saves a checkpoint that does");
}

/// Writes the file beside its place, and then renames it, so that nobody reads a part. @throws Error{io}
void write_whole(const fs::path& path, const std::string& bytes) {
  fs::path part = path;
  part += ".part";
  fs::remove(part);
  {
    const auto file = state::File::create(part, {static_cast<std::int64_t>(bytes.size())});
    file.write(std::as_bytes(std::span(bytes)), {0});
  }
  fs::rename(part, path);
}

/// @return what was written, for people
std::string write_onnx(const std::string& run, const std::string& path) {
  const Weights weights(weights_of(run));
  const nn::ModelDescription description = described(weights.reader());
  const nn::Graph graph = nn::make_model(description.model, description.data);
  const std::string onnx = nn::to_onnx(graph, description, [&](const TensorSlot& slot) { return weights(slot); });
  write_whole(path, onnx);
  return path + ": " + description.model + " of " + weights.reader().path().string() + ", " +
         std::to_string(onnx.size()) + " bytes\n";
}

/// @return the exit code of the program
int run(int argc, char** argv) {
  const Program program = describe();
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && argv[1][0] != '-') words.insert(words.begin() + 1, "--run");
  try {
    const OptionValues values = read_command_line(static_cast<int>(words.size()), words.data(), program);
    const std::string to_print = requested_text(values, program);
    if (!to_print.empty()) return print_once(program.name, to_print);
    if (!values.has("run") || !values.has("onnx"))
      throw UsageError("give the run and the file to write: lockstep-export RUN --onnx FILE");
    return print_once(program.name, write_onnx(values.get<std::string>("run"), values.get<std::string>("onnx")));
  } catch (const UsageError& error) {
    print_error(program.name, error.what());
    return exit_usage;
  } catch (const std::exception& error) {
    print_error(program.name, error.what());
    return exit_error;
  }
}

}  // namespace
}  // namespace lockstep::exporter

int main(int argc, char** argv) { return lockstep::exporter::run(argc, argv); }
