// SPDX-License-Identifier: Apache-2.0
// Tests the translation of .cu files, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/run_program.hpp"

namespace emulated_gpu {
namespace {

class Translation : public testing::Test {
 protected:
  Translation() { std::filesystem::create_directories(folder_); }
  ~Translation() override { std::filesystem::remove_all(folder_); }

  /// Returns the translation of the text from the second line on, which is the source's first, or the error.
  std::string translate(const std::string& text) {
    std::ofstream(folder_ / "a.cu") << text;
    const auto result = lockstep::testing_support::run_program(LOCKSTEP_TRANSLATOR " '" + (folder_ / "a.cu").string() +
                                                               "' '" + (folder_ / "a.cpp").string() + "' 2>&1");
    if (result.exit_code != 0) return result.output.substr(result.output.rfind('/') + 1);
    std::ifstream file(folder_ / "a.cpp");
    std::string translated((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return translated.substr(translated.find('\n', translated.find("#line 1 ")) + 1);
  }

 private:
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("translate." + std::to_string(getpid()));
};

TEST_F(Translation, LeavesTheRestAsItIs) {
  const std::string text =
      "// f<<<1, 2>>>();\nconst char* s = \"__shared__ int x; <<<\";\nauto r = R\"(f<<<1>>>)\";\nint n = 1'000'000;\n"
      "/* __shared__\n */ char c = '\"'; __device__ int f() { return 1 << 2; }\n";
  EXPECT_EQ(translate(text), text);
}

TEST_F(Translation, KeepsEachLineWhereItIs) {
  const std::string translated = translate("void g() {\n  f<int,\n    2><<<1,\n 2>>>(\n    3,\n    4); int here;\n}\n");
  EXPECT_EQ(translated.find("int here"), translated.find("4); ") + 4);
  EXPECT_EQ(std::count(translated.begin(), translated.begin() + static_cast<long>(translated.find("int here")), '\n'),
            5);
}

TEST_F(Translation, PutsVariablesOfTheGpuWhereKernelsMayWrite) {
  const std::string in_section = "__attribute__((section(\"emulated_gpu_variables\")))";
  EXPECT_EQ(translate("__device__ int x = 3;\n"), "__device__ " + in_section + " int x = 3;\n");
  EXPECT_EQ(translate("static __managed__ float x[4];\n"), "static __managed__ " + in_section + " float x[4];\n");
  EXPECT_EQ(translate("__device__ const int x = 3;\n"), "__device__ const int x = 3;\n");
}

TEST_F(Translation, RefusesWhatItDoesNotUnderstand) {
  const auto in_function = [](const std::string& line) { return "void f() {\n" + line + "\n}\n"; };
  for (const char* line :
       {"kernels[2]<<<1, 1>>>(x);", "this->kernel<<<1, 1>>>(x);", "a.template f<int><<<1, 1>>>();", "f<<<1, 1>>>;",
        "f<<<1, 1(x);", "f<<<1, 1>>>(x;", "__shared__ int x = 3;", "__shared__ int x[2] = {1, 2};",
        "__shared__ int x[];", "extern __shared__ int x[3];", "int __shared__ x;", "__shared__ int *x, *y;",
        "asm(\"bar.sync 0;\");", "cudaLaunchKernel(f, 1, 1, nullptr, 0, nullptr);", "f<<<1, g<<<1, 1>>>(x)>>>(y);"})
    EXPECT_TRUE(translate(in_function(line)).starts_with("a.cu:2: ")) << line << ": " << translate(in_function(line));
  EXPECT_EQ(translate("\nextern __shared__ int x[];\n").substr(0, 8), "a.cu:2: ");
  EXPECT_EQ(translate("#define RUN(f) f<<<1, 1>>>()\n").substr(0, 8), "a.cu:1: ");
}

}  // namespace
}  // namespace emulated_gpu
