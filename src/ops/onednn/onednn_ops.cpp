// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/onednn.hpp"
#include "ops/limits.hpp"
#include "ops/onednn/empty_batch.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/team.hpp"
#include "ops/sgd.hpp"
#include "ops/shapes.hpp"

// Of libgomp, whose header belongs to one compiler only.
extern "C" void omp_set_num_threads(int threads);

namespace lockstep::ops {

namespace {

/// oneDNN's exceptions as ours: it has no kernel for what was asked.
template <typename Make>
auto translated(const char* what, const Make& make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    throw Error(ErrorCode::unsupported, std::string("oneDNN cannot make this ") + what + ": " + error.what());
  }
}

void check_dtype(const Format& in) {
  if (in.dtype == DType::float32) return;
  throw Error(ErrorCode::unsupported,
              "oneDNN operators on " + std::string(name(in.dtype)) + "; use float32, or the reference operators");
}

class OneDnnOps final : public Ops {
 public:
  explicit OneDnnOps(int threads) {
    if (threads < 1) {
      throw Error(ErrorCode::invalid_argument, "threads is " + std::to_string(threads) + "; it must be at least 1");
    }
    omp_set_num_threads(threads);
    context_ = std::make_shared<onednn::Context>();
  }

  [[nodiscard]] std::string_view name() const override { return "onednn"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32; }

  std::unique_ptr<Operator> convolution(const Format& in, const ConvolutionShape& shape) override {
    check_dtype(in);
    const Shape out = output_shape(in.shape, shape);
    if (out.batch == 0) {
      const std::int64_t weights = out.channels * in.shape.channels * shape.kernel * shape.kernel;
      const auto counts = shape.bias ? std::vector{weights, out.channels} : std::vector{weights};
      return onednn::make_empty_batch(out, {.parameters = counts.size()}, counts);
    }
    return translated("convolution", [&] { return onednn::make_convolution(context_, in, shape); });
  }

  std::unique_ptr<Operator> batch_norm(const Format& in, const BatchNormShape& shape) override {
    check_dtype(in);
    check_batch_norm(in.shape, shape);
    if (in.shape.batch == 0) {
      return onednn::make_empty_batch(in.shape, {.parameters = 2, .state = 2}, {in.shape.channels, in.shape.channels});
    }
    return translated("batch norm", [&] { return onednn::make_batch_norm(context_, in, shape); });
  }

  std::unique_ptr<Operator> relu(const Format& in) override {
    check_dtype(in);
    check_shape(in.shape);
    if (in.shape.batch == 0) return onednn::make_empty_batch(in.shape, {}, {});
    return translated("ReLU", [&] { return onednn::make_relu(context_, in); });
  }

  std::unique_ptr<Operator> max_pool(const Format& in, const PoolShape& shape) override {
    return pool("max pooling", onednn::make_max_pool, in, shape);
  }
  std::unique_ptr<Operator> average_pool(const Format& in, const PoolShape& shape) override {
    return pool("average pooling", onednn::make_average_pool, in, shape);
  }

  std::unique_ptr<Operator> linear(const Format& in, std::int64_t out_channels, Activation activation) override {
    check_dtype(in);
    const Shape out = output_shape(in.shape, out_channels);
    if (out.batch == 0) {
      const std::int64_t features = in.shape.channels * in.shape.height * in.shape.width;
      return onednn::make_empty_batch(out, {.parameters = 2}, {out_channels * features, out_channels});
    }
    return translated("linear layer", [&] { return onednn::make_linear(context_, in, out_channels, activation); });
  }

  std::unique_ptr<Operator> add(const Format& a, const Format& b, Activation activation) override {
    check_dtype(a);
    check_same(a, b);
    if (a.shape.batch == 0) return onednn::make_empty_batch(a.shape, {.inputs = 2}, {});
    return translated("addition", [&] { return onednn::make_add(context_, a, b, activation); });
  }

  std::unique_ptr<Loss> softmax_cross_entropy(const Format& logits) override {
    check_dtype(logits);
    check_logits(logits.shape);
    return translated("loss", [&] { return onednn::make_softmax_cross_entropy(context_, logits); });
  }

  void sgd(const SgdStep& step) override {
    check_sgd(step);
    onednn::on_team([&](int member, int members) { sgd_step(part_of(step, member, members)); });
  }

  [[nodiscard]] MachineLimits measure_limits(DType dtype) override {
    return ops::measure_limits(dtype, onednn::on_team);
  }

 private:
  template <typename Make>
  std::unique_ptr<Operator> pool(const char* what, const Make& make, const Format& in, const PoolShape& shape) {
    check_dtype(in);
    const Shape out = output_shape(in.shape, shape);
    if (out.batch == 0) return onednn::make_empty_batch(out, {}, {});
    return translated(what, [&] { return make(context_, in, shape); });
  }

  onednn::ContextPtr context_;
};

}  // namespace

std::unique_ptr<Ops> make_onednn_ops(int threads) { return std::make_unique<OneDnnOps>(threads); }

}  // namespace lockstep::ops
