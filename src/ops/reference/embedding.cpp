// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/reference/operators.hpp"

namespace lockstep::ops::reference {
namespace {

/// A frequent token has many gradients, so they are summed in double, entry by entry. For that, positions are first
/// sorted by their tokens.
template <typename T>
class EmbeddingKernel final : public Kernel {
 public:
  EmbeddingKernel(const Format& tokens, const Embedding& embedding)
      : Kernel({.inputs = {tokens},
                .output = Format::plain(embedding.signature(std::span(&tokens.shape, 1)).output, dtype_of()),
                .backward_reads_output = false}),
        batch_(tokens.shape.batch),
        steps_(tokens.shape.width),
        embedding_(embedding),
        ends_(size(embedding.entries) + 1),
        sorted_(size(tokens.shape.count())),
        sums_(size(embedding.features)) {}

  void forward(const Arguments& call) override {
    const auto* tokens = static_cast<const std::int32_t*>(call.inputs[0]);
    const T* table = static_cast<const T*>(call.parameters[0]);
    for (std::int64_t i = 0; i < batch_ * steps_; ++i) {
      const T* row = table + checked(tokens[i], i, call) * features();
      T* out = static_cast<T*>(call.output) + first_of(i);
      for (std::int64_t f = 0; f < features(); ++f) out[f * steps_] = row[f];
    }
  }

  void backward(const Arguments& call) override {
    sort(call);
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* row = static_cast<T*>(call.parameter_gradients[0]);
    std::int64_t at = 0;
    for (std::int64_t entry = 0; entry < embedding_.entries; ++entry, row += features()) {
      std::fill(sums_.begin(), sums_.end(), 0.0);
      for (; at < ends_[size(entry)]; ++at) {
        if (entry == embedding_.padding_index) continue;
        const T* gradient = dy + first_of(sorted_[size(at)]);
        for (std::int64_t f = 0; f < features(); ++f) sums_[size(f)] += static_cast<double>(gradient[f * steps_]);
      }
      for (std::int64_t f = 0; f < features(); ++f) row[f] = static_cast<T>(sums_[size(f)]);
    }
  }

 private:
  static constexpr DType dtype_of() { return sizeof(T) == sizeof(float) ? DType::float32 : DType::float64; }
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
  [[nodiscard]] std::int64_t features() const { return embedding_.features; }
  /// Returns the index of the first feature of position `i` among all samples; the other features are `steps_` apart.
  [[nodiscard]] std::int64_t first_of(std::int64_t i) const { return i / steps_ * features() * steps_ + i % steps_; }

  /// Returns the token; one that is no entry is reported, and the first entry is used in its place.
  std::int32_t checked(std::int32_t token, std::int64_t i, const Arguments& call) const {
    if (token >= 0 && token < embedding_.entries) return token;
    call.report(FaultCode::token, i / steps_, token, embedding_.entries);
    return 0;
  }

  /// Sorts the positions by their tokens in ascending order; those of entry e end before ends_[e].
  void sort(const Arguments& call) {
    const auto* tokens = static_cast<const std::int32_t*>(call.inputs[0]);
    const auto entry = [&](std::int64_t i) { return size(checked(tokens[i], i, call)); };
    std::fill(ends_.begin(), ends_.end(), 0);
    const std::int64_t count = batch_ * steps_;
    for (std::int64_t i = 0; i < count; ++i) ++ends_[entry(i) + 1];
    for (std::size_t e = 1; e < ends_.size(); ++e) ends_[e] += ends_[e - 1];
    // The beginning of each entry moves to its end while its positions are written.
    for (std::int64_t i = 0; i < count; ++i) sorted_[size(ends_[entry(i)]++)] = i;
  }

  std::int64_t batch_;
  std::int64_t steps_;
  Embedding embedding_;
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> sorted_;
  std::vector<double> sums_;
};

}  // namespace

KernelPtr make(const Embedding& embedding, Formats in, DType reals) {
  if (reals == DType::float32) return std::make_unique<EmbeddingKernel<float>>(in[0], embedding);
  return std::make_unique<EmbeddingKernel<double>>(in[0], embedding);
}

}  // namespace lockstep::ops::reference
