// SPDX-License-Identifier: Apache-2.0
#include "kernels/divide.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <type_traits>

#include "kernels/convert.hpp"

namespace lockstep::kernels {

void divide(const Buffer& values, int divisor) {
  with_type(values.dtype, [&](auto element) {
    using T = decltype(element);
    // The caller's elements may be at any address, so they pass through an aligned array, some at a time.
    constexpr std::int64_t most = 512;
    std::array<T, most> narrow;
    auto* at = static_cast<std::byte*>(values.data);
    for (std::int64_t left = values.count.value; left > 0; left -= most) {
      const std::span some(narrow.data(), static_cast<std::size_t>(std::min(left, most)));
      std::memcpy(some.data(), at, some.size_bytes());
      if constexpr (std::is_arithmetic_v<T>) {
        for (T& value : some) value = static_cast<T>(value / static_cast<T>(divisor));
      } else {
        std::array<float, most> wide;
        const std::span floats(wide.data(), some.size());
        convert(std::span<const T>(some), floats);
        for (float& value : floats) value /= static_cast<float>(divisor);
        convert(std::span<const float>(floats), some);
      }
      std::memcpy(at, some.data(), some.size_bytes());
      at += some.size_bytes();
    }
  });
}

}  // namespace lockstep::kernels
