// SPDX-License-Identifier: Apache-2.0
// libjpeg-turbo looks at JSIMD_FORCENONE when it decodes for the first time, so another process decodes without SIMD.
#include <gtest/gtest.h>
#include <turbojpeg.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/run_program.hpp"
#include "vision/pictures.hpp"

namespace lockstep::vision {
namespace {

/// Decodes the file in another process at each scale, to three channels and to one.
std::string decoded_elsewhere(const std::string& path, const std::string& environment) {
  std::string commands;
  for (const char* side : {"0", "40", "20", "10"})
    for (const char* channels : {"1", "3"}) commands += path + " side " + side + " channels " + channels + "\\n";
  return testing_support::run_program("printf '" + commands + "' | " + environment + " " LOCKSTEP_PICTURE_BYTES).output;
}

TEST(Simd, DoesNotChangeTheBytesOfAJpeg) {
  const std::string path = std::filesystem::temp_directory_path() / ("simd_test" + std::to_string(getpid()));
  for (const int subsampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411}) {
    for (const bool is_progressive : {false, true}) {
      const File file = make_jpeg(patterned(131, 83, 3), {subsampling, 85, is_progressive});
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
      const std::string bytes = decoded_elsewhere(path, "");
      EXPECT_GT(bytes.size(), 131U * 83 * 4);
      EXPECT_EQ(bytes, decoded_elsewhere(path, "JSIMD_FORCENONE=1")) << subsampling;
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::vision
