// SPDX-License-Identifier: Apache-2.0
// What a lockstep says that was built without the libraries: this test is linked with the files that replace the
// decoders.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "support/errors.hpp"
#include "vision/codec/codec.hpp"

namespace lockstep::vision {
namespace {

TEST(MissingDecoders, NameTheirPackages) {
  const std::array jpeg{std::byte{0xFF}, std::byte{0xD8}, std::byte{0xFF}};
  Image picture;
  for (const auto& call : {std::function<void()>([&] { (void)inspect(jpeg); }), {[&] { decode(jpeg, {}, picture); }}})
    expect_error(call, ErrorCode::unsupported, {"without libjpeg-turbo", "libturbojpeg0-dev", "build it again"});
  const std::array png{std::byte{0x89}, std::byte{'P'},  std::byte{'N'},  std::byte{'G'},
                       std::byte{0x0D}, std::byte{0x0A}, std::byte{0x1A}, std::byte{0x0A}};
  for (const auto& call : {std::function<void()>([&] { (void)inspect(png); }),
                           {[&] { decode(png, {}, picture); }},
                           {[&] { (void)encode_png(picture); }}}) {
    expect_error(call, ErrorCode::unsupported, {"without libspng", "libspng-dev", "build it again"});
  }
}

}  // namespace
}  // namespace lockstep::vision
