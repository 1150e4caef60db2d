// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/ops.hpp"

/// Plain loops over plain NCHW arrays, one file per family of operators.
namespace lockstep::ops::reference {

std::unique_ptr<Operator> make_convolution(const Format& in, const ConvolutionShape& shape);
std::unique_ptr<Operator> make_batch_norm(const Format& in, const BatchNormShape& shape);
std::unique_ptr<Operator> make_relu(const Format& in);
std::unique_ptr<Operator> make_max_pool(const Format& in, const PoolShape& shape);
std::unique_ptr<Operator> make_average_pool(const Format& in, const PoolShape& shape);
std::unique_ptr<Operator> make_linear(const Format& in, std::int64_t out_channels, Activation activation);
std::unique_ptr<Operator> make_add(const Format& a, const Format& b, Activation activation);
std::unique_ptr<Loss> make_softmax_cross_entropy(const Format& logits);

/// Implementation<float> or Implementation<double>, by the dtype of `in`.
/// @throws Error{unsupported} for other dtypes; Error{invalid_argument} if `in` is not plain
template <typename Interface, template <typename> typename Implementation, typename... Arguments>
std::unique_ptr<Interface> make_for(const Format& in, const Arguments&... arguments) {
  if (in.native != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "the reference operators take plain NCHW; this format is another back end's");
  }
  switch (in.dtype) {
    case DType::float32: return std::make_unique<Implementation<float>>(arguments...);
    case DType::float64: return std::make_unique<Implementation<double>>(arguments...);
    default: break;
  }
  throw Error(ErrorCode::unsupported,
              "reference operators on " + std::string(name(in.dtype)) + "; use float32 or float64");
}

template <typename T>
constexpr DType dtype_of = sizeof(T) == sizeof(float) ? DType::float32 : DType::float64;

}  // namespace lockstep::ops::reference
