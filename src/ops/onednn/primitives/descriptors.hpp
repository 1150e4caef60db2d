// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>
#include <string_view>

#include "ops/onednn/primitives/format.hpp"

/// Wraps all differences between the interfaces of oneDNN 2 and 3: how the descriptor of a primitive is made, and three
/// smaller ones. The other files pass a primitive's options in version 3's order and do not depend on the version. All
/// functions throw dnnl::error if oneDNN has no kernel for the request.
namespace lockstep::ops::onednn {

/// The parameters of a primitive's descriptor other than its options.
struct PrimitiveParameters {
  const dnnl::engine& engine;
  dnnl::primitive_attr attributes;
  std::string_view passed_over = {};  ///< kernels whose names begin so are not used; empty: all may be used
};

/// Advances to the first kernel that may be used. Version 2 needs the options for that, so it happens while they are
/// alive.
template <typename PrimitiveDesc>
PrimitiveDesc with_kernel(PrimitiveDesc desc, const PrimitiveParameters& setting) {
  const std::string_view name = setting.passed_over;
  while (!name.empty() && std::string_view(desc.impl_info_str()).starts_with(name)) {
    if (!desc.next_impl()) throw dnnl::error(dnnl_unimplemented, "there are only kernels that must not be taken");
  }
  return desc;
}

#if DNNL_VERSION_MAJOR >= 3

// The pooling primitives of version 3 support dilation.
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;

template <typename Primitive, typename... Options>
auto make_desc(const PrimitiveParameters& setting, const Options&... options) {
  return with_kernel(typename Primitive::primitive_desc(setting.engine, options..., setting.attributes), setting);
}

/// @param hint  the descriptor of the forward primitive
template <typename Primitive, typename Hint, typename... Options>
auto make_backward_desc(const PrimitiveParameters& setting, const Hint& hint, const Options&... options) {
  return with_kernel(typename Primitive::primitive_desc(setting.engine, options..., hint, setting.attributes), setting);
}

inline void append_relu(dnnl::post_ops& after) { after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F); }

inline Dims dims_of(const Desc& desc) { return desc.get_dims(); }
inline dnnl::memory::data_type type_of(const Desc& desc) { return desc.get_data_type(); }

#else

using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;

/// Version 2 collects the options in an object first. They are version 3's options, except those that the
/// specializations drop.
template <typename Primitive>
struct Gathered {
  template <typename... Options>
  static auto from(const Options&... options) {
    return typename Primitive::desc(options...);
  }
};

template <>
struct Gathered<dnnl::eltwise_forward> {
  static auto from(dnnl::prop_kind kind, dnnl::algorithm algorithm, const Desc& src, const Desc& /*dst*/, float alpha,
                   float beta = 0) {
    return dnnl::eltwise_forward::desc(kind, algorithm, src, alpha, beta);
  }
};

template <>
struct Gathered<dnnl::eltwise_backward> {
  static auto from(dnnl::algorithm algorithm, const Desc& /*diff_src*/, const Desc& diff_dst, const Desc& data,
                   float alpha, float beta = 0) {
    return dnnl::eltwise_backward::desc(algorithm, diff_dst, data, alpha, beta);
  }
};

template <typename Primitive, typename... Options>
auto make_desc(const PrimitiveParameters& setting, const Options&... options) {
  const auto gathered = Gathered<Primitive>::from(options...);
  return with_kernel(typename Primitive::primitive_desc(gathered, setting.attributes, setting.engine), setting);
}

/// @param hint  the descriptor of the forward primitive
template <typename Primitive, typename Hint, typename... Options>
auto make_backward_desc(const PrimitiveParameters& setting, const Hint& hint, const Options&... options) {
  const auto gathered = Gathered<Primitive>::from(options...);
  return with_kernel(typename Primitive::primitive_desc(gathered, setting.attributes, setting.engine, hint), setting);
}

inline void append_relu(dnnl::post_ops& after) {
  after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

inline Dims dims_of(const Desc& desc) { return desc.dims(); }
inline dnnl::memory::data_type type_of(const Desc& desc) { return desc.data_type(); }

#endif

/// @pre float32 or bfloat16
inline DType dtype_of(const Desc& desc) {
  return type_of(desc) == dnnl::memory::data_type::bf16 ? DType::bfloat16 : DType::float32;
}

}  // namespace lockstep::ops::onednn
