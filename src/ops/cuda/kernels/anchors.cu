// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.hpp"
#include "ops/cuda/device/anchors.cuh"
#include "ops/cuda/device/losses.cuh"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/formulas/anchors.hpp"
#include "ops/formulas/functions.hpp"

namespace lockstep::ops::cuda {
namespace {

using Entropy = BinaryCrossEntropyAt<float, LibraryLog>;

/// Adds to the gradient of a logit.
template <typename E>
__device__ void add_to(void* gradient, std::int64_t i, float value) {
  store<E>(gradient, i, load<E>(gradient, i) + value);
}

// Each part has the terms of a prediction, and adds to its gradient. Parts of a loss share the gradient's memory, but
// none of its elements.

template <typename E>
struct BoxPart {
  AnchorCells<E> cells;

  BoxPart(const AnchorCells<E>& of, const AnchorLoss& /*op*/) : cells(of) {}
  [[nodiscard]] __device__ LossTerms terms(const AnchorPlace& at) const {
    LossTerms sum{};
    cells.each_match(at, [&](const AnchorTarget& target) {
      const CompleteIou iou(cells.prediction(at).box, target.box);
      sum = sum + LossTerms{1, 1 - iou.value(), iou.iou() > 0.5 ? 1.0 : 0.0, 0};
    });
    return sum;
  }
  __device__ void add_gradient(const AnchorPlace& at, double factor, void* gradient) const {
    double sums[4] = {};
    bool is_matched = false;
    cells.each_match(at, [&](const AnchorTarget& target) {
      const AnchorPrediction predicted = cells.prediction(at);
      double by_box[4];
      CompleteIou(predicted.box, target.box).gradient(predicted.box, target.box, by_box);
      for (int k = 0; k < 4; ++k) sums[k] += predicted.by_logit(k, by_box[k]);
      is_matched = true;
    });
    if (!is_matched) return;
    for (int k = 0; k < 4; ++k) add_to<E>(gradient, at.first + k, static_cast<float>(factor * sums[k]));
  }
};

template <typename E>
struct ObjectnessPart {
  AnchorCells<E> cells;
  Entropy entropy;

  ObjectnessPart(const AnchorCells<E>& of, const AnchorLoss& /*op*/) : cells(of), entropy(BinaryCrossEntropy{}) {}
  [[nodiscard]] __device__ LossTerms terms(const AnchorPlace& at) const {
    const float logit = cells.number(at, 4);
    const float target = cells.objectness(at);
    return {1, static_cast<double>(entropy.loss(logit, target)), entropy.right(logit, target) ? 1.0 : 0.0, 0};
  }
  __device__ void add_gradient(const AnchorPlace& at, double factor, void* gradient) const {
    const float slope = entropy.by_prediction(cells.number(at, 4), cells.objectness(at));
    add_to<E>(gradient, at.first + 4, static_cast<float>(factor) * slope);
  }
};

template <typename E>
struct ClassesPart {
  AnchorCells<E> cells;
  Entropy entropy;
  float positive;
  float negative;

  ClassesPart(const AnchorCells<E>& of, const AnchorLoss& op)
      : cells(of),
        entropy(BinaryCrossEntropy{}),
        positive(static_cast<float>(1 - op.label_smoothing / 2)),
        negative(static_cast<float>(op.label_smoothing / 2)) {}
  [[nodiscard]] __device__ float target(const AnchorTarget& of, std::int64_t c) const {
    return c == of.label ? positive : negative;
  }
  [[nodiscard]] __device__ LossTerms terms(const AnchorPlace& at) const {
    LossTerms sum{};
    const std::int64_t classes = cells.map.classes();
    if (classes == 1) return sum;
    cells.each_match(at, [&](const AnchorTarget& of) {
      std::int64_t largest = 0;
      double loss = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        const float logit = cells.number(at, numbers_of_box + c);
        if (logit > cells.number(at, numbers_of_box + largest)) largest = c;
        loss += static_cast<double>(entropy.loss(logit, target(of, c)));
      }
      const auto weight = static_cast<double>(classes);
      sum = sum + LossTerms{weight, loss, largest == of.label ? weight : 0.0, 0};
    });
    return sum;
  }
  __device__ void add_gradient(const AnchorPlace& at, double factor, void* gradient) const {
    if (cells.map.classes() == 1) return;
    cells.each_match(at, [&](const AnchorTarget& of) {
      for (std::int64_t c = 0; c < cells.map.classes(); ++c) {
        const float slope = entropy.by_prediction(cells.number(at, numbers_of_box + c), target(of, c));
        add_to<E>(gradient, at.first + numbers_of_box + c, static_cast<float>(factor) * slope);
      }
    });
  }
};

/// Writes the sums, and reports the first box whose class does not exist.
struct FinishBoxes {
  AnchorBoxes boxes;
  AnchorMap map;
  LossSums* to;
  bool only_weight;
  Fault* fault;
  std::int32_t node;

  __device__ void operator()(std::int64_t /*column*/, const LossTerms& terms) const {
    terms.write(to, only_weight);
    if (terms.from_end == 0) return;
    const std::int64_t i = map.samples * boxes.each - terms.from_end;
    report(fault, {FaultCode::label, node, i / boxes.each, boxes.target(i, map).label, map.classes()});
  }
};

AnchorBoxes boxes_of(const Arguments& call, std::int64_t each) {
  return {static_cast<const float*>(call.inputs[1]), Divisor(each)};
}

/// Sums the weights of the boxes, or of all predictions.
/// @param of_match  weight of a match; 0 for objectness, whose predictions have a weight of 1
void sum_matches(const AnchorMap& map, std::int64_t each, double of_match, bool is_objectness, const Arguments& call) {
  if (call.inputs[1] == nullptr && map.samples > 0)
    throw Error(ErrorCode::invalid_argument,
                "the boxes of a loss cannot come from the network, because its normalizer is computed first: give them "
                "as an input");
  const AnchorBoxes boxes = boxes_of(call, each);
  const double of_all = is_objectness ? static_cast<double>(map.cells()) : 0;
  sum_rows<LossTerms>(
      map.samples * each, 1,
      [=] __device__(std::int64_t i, std::int64_t /*column*/) {
        const double weight = of_match * static_cast<double>(boxes.target(i, map).matches(map));
        return LossTerms{i == 0 ? of_all + weight : weight, 0, 0, boxes.bad_from_end(i, map)};
      },
      FinishBoxes{boxes, map, static_cast<LossSums*>(call.output), true, call.fault, call.node}, call.workspace,
      call.queue);
}

/// The terms of a prediction, for `sum_rows`.
template <typename Part>
struct PartTerms {
  Part part;
  __device__ LossTerms operator()(std::int64_t i, std::int64_t /*column*/) const {
    const AnchorPlace at(i, part.cells.map, part.cells.padded);
    LossTerms terms = part.terms(at);
    terms.from_end = part.cells.bad_from_end(at);
    return terms;
  }
};

/// Adds the gradient of a prediction, for `for_each`.
template <typename Part>
struct PartGradients {
  Part part;
  const double* factor;
  void* gradient;
  __device__ void operator()(std::int64_t i) const {
    if (*factor != 0) part.add_gradient(AnchorPlace(i, part.cells.map, part.cells.padded), *factor, gradient);
  }
};

/// The weight of a match; 0 for objectness, which has a weight of 1 for each prediction.
double weight_of_match(const AnchorLoss& op, const AnchorMap& map) {
  if (op.part == AnchorLoss::Part::box) return 1;
  return op.part == AnchorLoss::Part::classes && map.classes() > 1 ? static_cast<double>(map.classes()) : 0;
}

template <typename E, typename Part>
Implementation anchor_loss(const AnchorLoss& op, Formats in) {
  const AnchorMap map(in[0].shape, op.anchors, op.stride);
  const std::int64_t padded = view_of(in[0]).padded;
  const std::int64_t each = in[1].shape.width;
  const auto part = [=](const Arguments& call) {
    return Part(AnchorCells<E>{map, padded, call.inputs[0], boxes_of(call, each)}, op);
  };
  Traits traits = loss_traits(in, loss_workspace(std::max(map.cells(), map.samples * each)));
  traits.input_gradients = Writes::accumulates;
  return {.traits = traits,
          .forward =
              [=](const Arguments& call) {
                const FinishBoxes finish{boxes_of(call, each), map,      static_cast<LossSums*>(call.output), false,
                                         call.fault,           call.node};
                sum_rows<LossTerms>(map.cells(), 1, PartTerms<Part>{part(call)}, finish, call.workspace, call.queue);
              },
          .backward =
              [=](const Arguments& call) {
                const PartGradients<Part> body{part(call), factor_of(call), call.input_gradients[0]};
                if (body.gradient != nullptr) for_each(map.cells(), body, call.queue);
              },
          .normalizer =
              [=](const Arguments& call) {
                const bool is_objectness = op.part == AnchorLoss::Part::objectness;
                sum_matches(map, each, weight_of_match(op, map), is_objectness, call);
              }};
}

template <typename E>
Implementation anchor_loss_of(const AnchorLoss& op, Formats in) {
  if (op.part == AnchorLoss::Part::box) return anchor_loss<E, BoxPart<E>>(op, in);
  if (op.part == AnchorLoss::Part::objectness) return anchor_loss<E, ObjectnessPart<E>>(op, in);
  return anchor_loss<E, ClassesPart<E>>(op, in);
}

}  // namespace

Implementation make(const AnchorLoss& op, Formats in, const Signature& /*signature*/) {
  return with_elements(in[0].dtype, [&](auto e) { return anchor_loss_of<decltype(e)>(op, in); });
}

}  // namespace lockstep::ops::cuda
