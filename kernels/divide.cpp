// SPDX-License-Identifier: Apache-2.0
#include "kernels/divide.hpp"

#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/convert.hpp"

namespace lockstep::kernels {

void divide(const Buffer& values, int divisor) {
  with_type(values.dtype, [&](auto element) {
    using T = decltype(element);
    // Elements lie where the caller has them, which may be at any address.
    auto* at = static_cast<std::byte*>(values.data);
    for (std::int64_t i = 0; i < values.count.value; ++i, at += sizeof(T)) {
      std::memcpy(&element, at, sizeof(T));
      if constexpr (std::is_arithmetic_v<T>) {
        element = static_cast<T>(element / static_cast<T>(divisor));
      } else {
        float wide = 0;
        convert(std::span<const T>(&element, 1), std::span(&wide, 1));
        wide /= static_cast<float>(divisor);
        convert(std::span<const float>(&wide, 1), std::span(&element, 1));
      }
      std::memcpy(at, &element, sizeof(T));
    }
  });
}

}  // namespace lockstep::kernels
