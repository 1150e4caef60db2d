// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The scores of neighboring positions: that of class c at position i is `first[c * stride + i]`. For T = float or
/// double.
template <typename T>
struct ClassScores {
  const T* first;
  std::int64_t classes;
  std::int64_t stride;
  std::int64_t positions;
};

/// Sets for each position the largest score, its class, which is the first one if there are several, and
/// Σ exp(score − largest), added in T from the first class on. The results overlap nothing.
void set_softmax(const ClassScores<float>& scores, float* largest, std::int32_t* winner, float* sum);
void set_softmax(const ClassScores<double>& scores, double* largest, std::int32_t* winner, double* sum);

/// What `set_softmax` has set.
template <typename T>
struct Softmax {
  const T* largest;
  const T* sum;
};

/// What the gradient of a cross-entropy needs at each position beside the softmax.
template <typename T>
struct CrossEntropyTarget {
  const std::int32_t* label;
  const T* scale;  ///< factor of the whole gradient; where it is 0, the gradient is 0, even if scores are NaN
  const T* mass;   ///< factor of the softmax: the sum of all classes' targets
  const T* own;    ///< what the label's class has more than others
};

/// Overwrites the gradients of one class with scale · (mass · softmax − target), where the target is `spread`, and
/// `own` more if the class is the label. @param gradient  of the first position; it may be the class's scores
void set_cross_entropy_gradient(const ClassScores<float>& scores, std::int32_t of_class, const Softmax<float>& softmax,
                                const CrossEntropyTarget<float>& target, float spread, float* gradient);
void set_cross_entropy_gradient(const ClassScores<double>& scores, std::int32_t of_class,
                                const Softmax<double>& softmax, const CrossEntropyTarget<double>& target, double spread,
                                double* gradient);

}  // namespace lockstep::kernels
