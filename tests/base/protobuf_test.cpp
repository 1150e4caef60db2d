// SPDX-License-Identifier: Apache-2.0
#include "base/protobuf.hpp"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using namespace std::string_literals;

/// The examples of protobuf.dev, "Encoding".
TEST(ProtobufMessage, IsEncodedAsItsDocumentationShows) {
  EXPECT_EQ(ProtobufMessage().integer(1, 150).bytes(), "\x08\x96\x01"s);
  EXPECT_EQ(ProtobufMessage().text(2, "testing").bytes(), "\x12\x07testing"s);
  EXPECT_EQ(ProtobufMessage().message(3, ProtobufMessage().integer(1, 150)).bytes(), "\x1a\x03\x08\x96\x01"s);
  EXPECT_EQ(ProtobufMessage().integer(1, -2).bytes(), "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
}

TEST(ProtobufMessage, HasRealNumbersInLittleEndian) {
  EXPECT_EQ(ProtobufMessage().real(1, 1.0).bytes(), "\x09\0\0\0\0\0\0\xf0\x3f"s);
  EXPECT_EQ(ProtobufMessage().real(2, 1.0F).bytes(), "\x15\0\0\x80\x3f"s);
}

TEST(ProtobufMessage, HasFieldsOfAnyNumberAndLength) {
  EXPECT_EQ(ProtobufMessage().integer(16, 0).integer(16, 1).bytes(), "\x80\x01\0\x80\x01\x01"s);
  EXPECT_EQ(ProtobufMessage().text(1, std::string(200, 'x')).bytes(), "\x0a\xc8\x01" + std::string(200, 'x'));
}

}  // namespace
}  // namespace lockstep
