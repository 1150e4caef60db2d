// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/libraries.hpp"

namespace lockstep::ops::test {

std::vector<std::unique_ptr<Ops>> libraries() {
  std::vector<std::unique_ptr<Ops>> all;
  all.push_back(make_reference_ops());
  all.push_back(make_onednn_ops(1));
  all.push_back(make_onednn_ops(2));
  return all;
}

std::vector<std::unique_ptr<Ops>> bfloat16_libraries() {
  std::vector<std::unique_ptr<Ops>> all;
  for (const int threads : {1, 2}) {
    auto ops = make_onednn_ops(threads);
    if (!ops->half_kernels(DType::bfloat16).exist) return {};
    all.push_back(make_rounded_ops(std::move(ops), DType::bfloat16, HalfPrecision::native));
  }
  return all;
}

}  // namespace lockstep::ops::test
