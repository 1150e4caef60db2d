// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// The format of values that are rounded, and lie as `inner` says.
Format rounded(const Format& inner);
bool is_rounded(const Format& format);
/// How they lie. The format itself where they are not rounded.
const Format& inner_of(const Format& format);
/// Whether they are rounded behind the kernel, which stores float32.
bool is_emulated(const Format& format);

/// Memory that kernels of one `Ops` share, since one runs at a time.
class Scratch {
 public:
  /// Makes it at least so long. What was there is lost.
  void reserve(Bytes bytes);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.data()); }

 private:
  Allocation memory_;
};

/// A kernel whose results, and gradients of inputs, are rounded where their formats are, and the kernel does not do so.
class RoundedKernel final : public Kernel {
 public:
  /// @param inner       that computes
  /// @param traits      the same as inner's, but for formats
  /// @param parameters  how many elements of each it is given a rounded copy of; 0: it reads that as it is; empty: all
  RoundedKernel(std::unique_ptr<Kernel> inner, Traits traits, DType half, std::vector<std::int64_t> parameters,
                std::shared_ptr<Scratch> scratch);

  [[nodiscard]] std::string algorithm(Pass pass) const override;

 private:
  void forward(const Arguments& call) override { run_forward(Pass::forward, call); }
  void infer(const Arguments& call) override { run_forward(Pass::infer, call); }
  void recompute(const Arguments& call) override { run_forward(Pass::recompute, call); }
  void backward(const Arguments& call) override;
  void normalizer(const Arguments& call) override { inner_->run(Pass::normalizer, call); }
  void measure(const Arguments& call) override { inner_->run(Pass::measure, call); }
  void measure_backward(const Arguments& call) override { inner_->run(Pass::measure_backward, call); }

  void run_forward(Pass pass, const Arguments& call);
  Arguments with_rounded_parameters(Arguments call);
  void round_in_place(const Format& format, void* values) const;

  std::unique_ptr<Kernel> inner_;
  DType half_;
  std::vector<std::int64_t> counts_;     // of parameters; 0: read as it is
  std::vector<const void*> parameters_;  // of the call under way: copies of them
  std::shared_ptr<Scratch> scratch_;
};

/// Copies a value into another layout or dtype, or none, and rounds it where it was not and is to be.
class RoundedReorder final : public Kernel {
 public:
  /// @param inner  null: both lie alike
  RoundedReorder(std::unique_ptr<Kernel> inner, const Format& from, const Format& to, DType half);

  [[nodiscard]] std::string algorithm(Pass pass) const override;

 private:
  void forward(const Arguments& call) override;
  void backward(const Arguments& call) override;

  std::unique_ptr<Kernel> inner_;
  DType half_;
  bool rounds_;
};

}  // namespace lockstep::ops
