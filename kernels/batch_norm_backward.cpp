// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.hpp"
#include "kernels/stored.hpp"

namespace lockstep::kernels {
namespace {

/// The tensor that masks the gradient: the output or the input of a ReLU or a ReLU6.
enum class MaskedBy { nothing, input, input_of_6, output, output_of_6 };

constexpr bool is_output(MaskedBy by) { return by == MaskedBy::output || by == MaskedBy::output_of_6; }
constexpr bool is_input(MaskedBy by) { return by == MaskedBy::input || by == MaskedBy::input_of_6; }

template <typename T>
MaskedBy masked_by(const Mask<T>& mask) {
  if (mask.output != nullptr) return mask.six ? MaskedBy::output_of_6 : MaskedBy::output;
  if (mask.direction == nullptr) return MaskedBy::nothing;
  return mask.six ? MaskedBy::input_of_6 : MaskedBy::input;
}

/// The mask of a gradient by the input, for the channels of a pack. Without such a mask it is empty.
template <MaskedBy By, typename Pack>
struct InputMask {
  typename Pack::Floats direction[Pack::count]{};
  typename Pack::Floats from[Pack::count]{};
  typename Pack::Floats to[Pack::count]{};

  template <typename T>
  LOCKSTEP_INLINE InputMask(const Mask<T>& mask, std::int64_t channel) {
    if (is_input(By)) {
      Pack::load_each(direction, mask.direction + channel);
      Pack::load_each(from, mask.from + channel);
    }
    if (By == MaskedBy::input_of_6) Pack::load_each(to, mask.to + channel);
  }
  LOCKSTEP_INLINE void apply(const typename Pack::Floats* in, typename Pack::Floats* gradient, std::int64_t k) const {
    using Floats = typename Pack::Floats;
    if (is_input(By)) gradient[k] = in[k] * direction[k] >= from[k] ? gradient[k] : Floats{};
    if (By == MaskedBy::input_of_6) gradient[k] = in[k] * direction[k] >= to[k] ? Floats{} : gradient[k];
  }
};

template <MaskedBy By, bool Second, typename T>
struct SumGradients {
  const float* means;
  const T* x;
  OutputGradient<T> gradients;
  double* sum;
  double* products;

  template <std::int64_t Lanes, std::int64_t register_bytes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    using Pack = Packs<T, Lanes, register_bytes>;
    using Floats = typename Pack::Floats;
    using Doubles = typename Pack::Doubles;
    Floats mean[Pack::count];
    Doubles a[Pack::count];
    Doubles b[Pack::count];
    Pack::load_each(a, sum + block.channel);
    Pack::load_each(b, products + block.channel);
    Pack::load_each(mean, means + block.channel);
    const InputMask<By, Pack> input_mask(gradients.mask, block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      Floats in[Pack::count];
      Floats gradient[Pack::count];
      Floats other[Pack::count]{};
      Floats output[Pack::count]{};
      prefetch(i);
      Pack::load(in, x + i);
      Pack::load(gradient, gradients.dy + i);
      if (Second) Pack::load(other, gradients.second + i);
      if (is_output(By)) Pack::load(output, gradients.mask.output + i);
      for (std::int64_t k = 0; k < Pack::count; ++k) {
        if (Second) {
          gradient[k] += other[k];
          Pack::round_as_stored(gradient[k]);
        }
        input_mask.apply(in, gradient, k);
        if (is_output(By)) gradient[k] = output[k] > 0 ? gradient[k] : Floats{};
        if (By == MaskedBy::output_of_6) gradient[k] = output[k] >= 6 ? Floats{} : gradient[k];
        Doubles wide;
        Doubles centered;
        Pack::widen(gradient[k], wide);
        Pack::widen(in[k] - mean[k], centered);
        a[k] += wide;
        b[k] += wide * centered;
      }
      if (Second || is_output(By)) Pack::store_exact(gradient, gradients.g + i);
    }
    Pack::store_each(a, sum + block.channel);
    Pack::store_each(b, products + block.channel);
  }

 private:
  LOCKSTEP_INLINE void prefetch(std::int64_t i) const {
    prefetch_ahead(x + i);
    prefetch_ahead(gradients.dy + i);
    if (Second) prefetch_ahead(gradients.second + i);
    if (is_output(By)) prefetch_ahead(gradients.mask.output + i);
  }
};

template <MaskedBy By, typename T>
struct BackwardInput {
  BackwardCoefficients coefficients;
  Mask<T> mask;
  const T* x;
  const T* dy;
  T* dx;

  template <std::int64_t Lanes, std::int64_t register_bytes>
  LOCKSTEP_INLINE void run(const Block& block) const {
    using Pack = Packs<T, Lanes, register_bytes>;
    using Floats = typename Pack::Floats;
    Floats mean[Pack::count];
    Floats scale[Pack::count];
    Floats slope[Pack::count];
    Floats intercept[Pack::count];
    Pack::load_each(mean, coefficients.mean + block.channel);
    Pack::load_each(scale, coefficients.scale + block.channel);
    Pack::load_each(slope, coefficients.slope + block.channel);
    Pack::load_each(intercept, coefficients.intercept + block.channel);
    const InputMask<By, Pack> input_mask(mask, block.channel);
    for (std::int64_t p = 0; p < block.positions; ++p) {
      const std::int64_t i = block.begin + p * block.stride;
      Floats in[Pack::count];
      Floats gradient[Pack::count];
      Pack::load(in, x + i);
      Pack::load(gradient, dy + i);
      for (std::int64_t k = 0; k < Pack::count; ++k) {
        input_mask.apply(in, gradient, k);
        gradient[k] = scale[k] * gradient[k] - slope[k] * (in[k] - mean[k]) - intercept[k];
      }
      Pack::store(gradient, dx + i);
    }
  }
};

template <MaskedBy By, typename T>
LOCKSTEP_INLINE void sum_masked(const ChannelLayout& layout, const TensorPart& part,
                                const SumGradients<By, true, T>& sums) {
  if (sums.gradients.second != nullptr) return for_each_block<T>(layout, part, sums);
  for_each_block<T>(layout, part,
                    SumGradients<By, false, T>{sums.means, sums.x, sums.gradients, sums.sum, sums.products});
}

template <typename T>
LOCKSTEP_INLINE void sum_each_gradient(const ChannelLayout& layout, const TensorPart& part, const float* mean,
                                       const T* x, const OutputGradient<T>& gradient, double* sum, double* products) {
  make_zero(layout, part, sum);
  make_zero(layout, part, products);
  using By = MaskedBy;
  switch (masked_by(gradient.mask)) {
    case By::nothing: return sum_masked<By::nothing, T>(layout, part, {mean, x, gradient, sum, products});
    case By::input: return sum_masked<By::input, T>(layout, part, {mean, x, gradient, sum, products});
    case By::input_of_6: return sum_masked<By::input_of_6, T>(layout, part, {mean, x, gradient, sum, products});
    case By::output: return sum_masked<By::output, T>(layout, part, {mean, x, gradient, sum, products});
    case By::output_of_6: return sum_masked<By::output_of_6, T>(layout, part, {mean, x, gradient, sum, products});
  }
}

template <typename T>
LOCKSTEP_INLINE void backward_each_input(const ChannelLayout& layout, const TensorPart& part,
                                         const BackwardCoefficients& coefficients, const Mask<T>& mask, const T* x,
                                         const T* dy, T* dx) {
  const MaskedBy by = masked_by(mask);
  if (by == MaskedBy::input) {
    for_each_block<T>(layout, part, BackwardInput<MaskedBy::input, T>{coefficients, mask, x, dy, dx});
  } else if (by == MaskedBy::input_of_6) {
    for_each_block<T>(layout, part, BackwardInput<MaskedBy::input_of_6, T>{coefficients, mask, x, dy, dx});
  } else {
    for_each_block<T>(layout, part, BackwardInput<MaskedBy::nothing, T>{coefficients, mask, x, dy, dx});
  }
}

}  // namespace

void sum_gradients(const ChannelLayout& layout, const TensorPart& part, const float* mean, const float* x,
                   const OutputGradient<float>& gradient, double* sum, double* products) {
  sum_each_gradient(layout, part, mean, x, gradient, sum, products);
}

void sum_gradients(const ChannelLayout& layout, const TensorPart& part, const float* mean, const bfloat16* x,
                   const OutputGradient<bfloat16>& gradient, double* sum, double* products) {
  sum_each_gradient(layout, part, mean, x, gradient, sum, products);
}

void backward_input(const ChannelLayout& layout, const TensorPart& part, const BackwardCoefficients& coefficients,
                    const Mask<float>& mask, const float* x, const float* dy, float* dx) {
  backward_each_input(layout, part, coefficients, mask, x, dy, dx);
}

void backward_input(const ChannelLayout& layout, const TensorPart& part, const BackwardCoefficients& coefficients,
                    const Mask<bfloat16>& mask, const bfloat16* x, const bfloat16* dy, bfloat16* dx) {
  backward_each_input(layout, part, coefficients, mask, x, dy, dx);
}

}  // namespace lockstep::kernels
