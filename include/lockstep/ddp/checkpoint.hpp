// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/ddp/process_group.hpp"

namespace lockstep {

/// Saves and restores what a training loop of the program's own must not lose: parameters, tensors, numbers and texts,
/// by name. All ranks save and restore together; rank 0's values are saved, and all ranks get them, so the number of
/// ranks may change. Checkpoints are folders `step-00000100` in the folder `checkpoints` of the run, of the form that
/// docs/checkpoints.md describes: checksummed, and whole under their names after a crash at any instant.
///
///   lockstep::Checkpoint checkpoint(group, "runs/mine");
///   checkpoint.add(parallel).add("velocity", velocity).add("step", step);
///   checkpoint.restore();  // from the newest good one, if there is one
///   for (; step < 1000;) { …; if (++step % 100 == 0) checkpoint.save(step); }
///
/// Memory that was added must be host memory, keep its place, and outlive this object. Move-only.
class Checkpoint {
 public:
  /// Makes the folder if it is missing, and locks it, on rank 0. Collective.
  /// @param group  outlives this object
  /// @param keep   number of newest checkpoints that stay; older ones are removed
  /// @throws Error{invalid_argument} on every rank if `keep` is less than 1; Error{io} on every rank if rank 0 cannot
  ///         write there, or another run does
  Checkpoint(ProcessGroup& group, const std::filesystem::path& folder, int keep = 3);
  Checkpoint(ProcessGroup&& /*Keep the group in a variable: it outlives this.*/, const std::filesystem::path&,
             int = 3) = delete;
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// Adds the values of all parameters, by their names, as tensors of `model.safetensors`. With a sharded optimizer,
  /// call `DataParallel::gather` before `save`. @throws as the next
  Checkpoint& add(const DataParallel& parallel);
  /// Adds a tensor of `model.safetensors`, the file that other programs load.
  /// @param extents  row-major; none: one dimension
  /// @throws Error{invalid_argument} that names the tensor if another one has its name, or if the extents are not those
  ///         of its elements; Error{unsupported} for device memory
  Checkpoint& add_to_model(const std::string& name, const Buffer& tensor,
                           const std::optional<std::vector<std::int64_t>>& extents = std::nullopt);
  /// Adds a tensor of the program's own, such as a state of its optimizer. @throws as add_to_model
  Checkpoint& add(const std::string& name, const Buffer& tensor,
                  const std::optional<std::vector<std::int64_t>>& extents = std::nullopt);
  /// Adds a whole number of any type, or a bool. A checkpoint does not keep the type: a number is restored if it fits
  /// the program's type. @throws Error{invalid_argument} if another number or text has its name
  template <std::integral T>
  requires(!std::is_const_v<T> && sizeof(T) <= sizeof(std::int64_t)) Checkpoint& add(const std::string& name,
                                                                                     T& number) {
    using Signed =
        std::conditional_t<sizeof(T) == 1, std::int8_t,
                           std::conditional_t<sizeof(T) == 2, std::int16_t,
                                              std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>>;
    using Whole =
        typename std::conditional_t<std::is_signed_v<T>, std::type_identity<Signed>, std::make_unsigned<Signed>>::type;
    return add_number(name, reinterpret_cast<std::conditional_t<std::same_as<T, bool>, bool, Whole>*>(&number));
  }
  /// Adds a real number, a float or a double. @throws as for whole numbers
  template <std::floating_point T>
  requires(!std::is_const_v<T> && sizeof(T) <= sizeof(double)) Checkpoint& add(const std::string& name, T& number) {
    return add_number(name, &number);
  }
  /// Adds a text in UTF-8, for instance the state of a generator of random numbers, which `operator<<` writes.
  /// @throws as for numbers; `save` throws Error{invalid_argument} on every rank if the text is not UTF-8
  Checkpoint& add(const std::string& name, std::string& text) { return add_number(name, &text); }

  /// Saves everything that was added, and returns when it is on disk. An older checkpoint of the same step is replaced.
  /// Collective. @param step  not negative
  /// @return the checkpoint's folder, on every rank
  /// @throws Error{io} on every rank if rank 0 cannot write it: older checkpoints stay, and the program may go on;
  ///         Error{diverged} on every rank that names a tensor of the model that rank 0 has with an infinite element or
  ///         NaN; Error{mismatch} on every rank that names the ranks on which other tensors or numbers were added
  std::filesystem::path save(std::int64_t step);

  /// Overwrites everything that was added, on all ranks. Checkpoints of later steps in the folder, which belong to a
  /// continuation that is given up, are renamed to `unused-step-…`. Collective.
  /// @param which  "auto": the newest good one, if there is one; "last" or the path of a checkpoint or of a run: that
  /// one
  /// @return its step; nothing if there is none and `which` is "auto"
  /// @throws Error{io} or Error{corrupt} on every rank if rank 0 cannot read it, with the file; Error{unsupported} on
  ///         every rank if another version of lockstep has written it in another form; Error{mismatch} on every rank,
  ///         before anything is changed, that names the tensors and numbers that were saved and not added, or added and
  ///         not saved, have other extents, or do not fit the program's type; Error{mismatch} as `save`
  std::optional<std::int64_t> restore(const std::string& which = "auto");

 private:
  struct State;
  /// A number or text of the program.
  using Number = std::variant<bool*, std::int8_t*, std::int16_t*, std::int32_t*, std::int64_t*, std::uint8_t*,
                              std::uint16_t*, std::uint32_t*, std::uint64_t*, float*, double*, std::string*>;
  Checkpoint& add_number(const std::string& name, Number number);

  std::unique_ptr<State> state_;
};

}  // namespace lockstep
