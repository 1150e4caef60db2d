// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/device/batch_norm_passes.cuh"
#include "ops/cuda/device/two_batch_norms.cuh"
#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {
namespace {

/// The sum of two batch norms, and an activation behind it: the normalized second input is never stored, nor is its
/// gradient, which is that of the sum. Besides, everything is as if there were two operators, to the last bit.
template <typename E, int size>
struct TwoBatchNorms {
  using Passes = BatchNormPasses<E, size>;
  Passes first;
  Passes second;

  TwoBatchNorms(const BatchNorm& op, const Format& x) : first(op, x, 0), second(op, x, 1) {}

  void measure(const Arguments& call) const {
    first.measure(call);
    second.measure(call);
  }

  void forward(const Arguments& call) const {
    first.find_statistics(call);
    second.find_statistics(call);
    normalize(call, first.passing(call), first.lines(call), second.lines(call));
  }

  void infer(const Arguments& call) const {
    normalize(call, nullptr, first.running_lines(call), second.running_lines(call));
  }

  void normalize(const Arguments& call, PassingBits* kept, const LineSource& of_first,
                 const LineSource& of_second) const {
    with_activation(first.op.activation, [&](auto activation) {
      const NormalizeTwo<E, size, activation> body{.inputs = {call.inputs[0], call.inputs[1]},
                                                   .y = call.output,
                                                   .passing = kept,
                                                   .sources = {of_first, of_second}};
      for_each_pack(first.tiles, body, call.queue);
    });
  }

  /// Sums the gradients before the activation, and writes them to `keep` unless it is null.
  void sum_gradients(const Arguments& call, void* keep) const {
    const auto submit = [&]<SignOf sign, bool has_second>(Sign<sign>, std::bool_constant<has_second>) {
      const GradientSumsOfTwo<E, size, sign, has_second> sums{
          .inputs = {call.inputs[0], call.inputs[1]},
          .gradient = {call.output_gradient, call.second_output_gradient, first.passing(call)},
          .keep = keep,
          .sources = {first.lines(call), second.lines(call)}};
      sum_packs<size>(first.tiles, sums, call.workspace, call.queue);
    };
    const auto with_sign = [&](auto has_second) {
      first.keeps_passing() ? submit(Sign<SignOf::kept>{}, has_second) : submit(Sign<SignOf::none>{}, has_second);
    };
    call.second_output_gradient != nullptr ? with_sign(std::true_type{}) : with_sign(std::false_type{});
  }

  void measure_backward(const Arguments& call) const {
    const bool changes = call.second_output_gradient != nullptr || first.keeps_passing();
    sum_gradients(call, changes ? call.output_gradient : nullptr);
    first.write_gradients(call);
    second.write_gradients(call);
  }

  void backward(const Arguments& call) const {
    // To write the sum of two terms saves reading both again. To apply the bits again costs less than to write.
    const bool has_terms = call.second_output_gradient != nullptr;
    const bool is_synchronized = first.op.synchronized;
    if (!is_synchronized) sum_gradients(call, has_terms ? call.output_gradient : nullptr);
    first.use_gradients(call);
    second.use_gradients(call);
    const bool is_before_activation = is_synchronized || has_terms || !first.keeps_passing();
    is_before_activation ? input_gradients(call, Sign<SignOf::none>{}) : input_gradients(call, Sign<SignOf::kept>{});
  }

  template <SignOf sign>
  void input_gradients(const Arguments& call, Sign<sign> /*of*/) const {
    const InputGradientsOfTwo<E, size, sign> body{
        .inputs = {call.inputs[0], call.inputs[1]},
        .gradient = {.dy = call.output_gradient, .passing = first.passing(call)},
        .of_inputs = {call.input_gradients[0], call.input_gradients[1]},
        .sources = {first.lines(call), second.lines(call)},
        .means = {first.means(call), second.means(call)}};
    if (body.of_inputs[0] != nullptr || body.of_inputs[1] != nullptr) for_each_pack(first.tiles, body, call.queue);
  }
};

template <typename E, int size>
Implementation two_batch_norms(const BatchNorm& op, const Format& x) {
  const TwoBatchNorms<E, size> norms(op, x);
  return {.traits = {.inputs = {x, x},
                     .output = x,
                     .saved = norms.first.saved(),
                     .workspace = norms.first.workspace(),
                     .backward_reads_output = false,
                     .takes_two_gradients = true,
                     .in_place_gradient = 1,
                     .forward_part = norms.first.exchanged(),
                     .backward_part = norms.first.exchanged()},
          .forward = [=](const Arguments& call) { norms.forward(call); },
          .backward = [=](const Arguments& call) { norms.backward(call); },
          .infer = [=](const Arguments& call) { norms.infer(call); },
          .measure = [=](const Arguments& call) { norms.measure(call); },
          .measure_backward = [=](const Arguments& call) { norms.measure_backward(call); }};
}

}  // namespace

Implementation make_two_batch_norms(const BatchNorm& op, Formats in) {
  return with_packs(in[0], [&](auto e, auto size) { return two_batch_norms<decltype(e), size>(op, in[0]); });
}

}  // namespace lockstep::ops::cuda
