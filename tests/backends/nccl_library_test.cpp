// SPDX-License-Identifier: Apache-2.0
// Tests how NCCL is found and checked, with fake libraries. It needs no GPU.
#include "backends/nccl/nccl_library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>

#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

const std::string complete = LOCKSTEP_FAKE_NCCL;           // has the soname of the real one, libnccl.so.2
const std::string without_functions = LOCKSTEP_POOR_NCCL;  // has only ncclGetVersion

void pretend(const char* version) { setenv("FAKE_NCCL_VERSION", version, 1); }

std::string refusal_of(const std::string& file) {
  try {
    load_nccl(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.message();
  }
  ADD_FAILURE() << file << " was loaded";
  return {};
}

void expect_has(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

/// Evaluates expectations in a process that has not loaded NCCL, because a library stays loaded.
[[noreturn]] void exit_after(const std::function<void()>& expectations) {
  expectations();
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}
void hold_in_a_new_process(const std::function<void()>& expectations) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // restarts this program with this test alone
  EXPECT_EXIT(exit_after(expectations), testing::ExitedWithCode(0), "");
}

TEST(NcclLibrary, VersionsAreReadAsNcclWritesThem) {
  EXPECT_EQ(NcclVersion::of_code(22809), (NcclVersion{2, 28, 9}));
  EXPECT_EQ(NcclVersion::of_code(21903), (NcclVersion{2, 19, 3}));
  EXPECT_EQ(NcclVersion::of_code(20900), (NcclVersion{2, 9, 0}));
  EXPECT_EQ(NcclVersion::of_code(2804), (NcclVersion{2, 8, 4}));
  EXPECT_LT(NcclVersion::of_code(2804), NcclVersion::of_code(20900));
  EXPECT_EQ(text({2, 28, 9}), "2.28.9");
}

TEST(NcclLibrary, AFileThatIsNotThereIsNamedWithTheRemedy) {
  expect_has(refusal_of("/nonexistent/libnccl.so.2"),
             {"LOCKSTEP_NCCL_LIBRARY=/nonexistent/libnccl.so.2", "No such file or directory", "Install NCCL 2",
              "2.19.0 or newer", "libnccl2", "nvidia-nccl-cu"});
}

TEST(NcclLibrary, AFileThatIsNoNcclIsNamed) {
  const std::string no_nccl = "libm.so.6";
  expect_has(refusal_of(no_nccl), {"libm.so.6 is no NCCL", "ncclGetVersion"});
}

TEST(NcclLibrary, TooOldAVersionIsRefusedWithWhatItLacks) {
  pretend("21805");
  expect_has(refusal_of(without_functions),
             {"NCCL 2.18.5 (", without_functions.c_str(), "too old", "it lacks ", "ncclMemAlloc", "2.19.0 or newer"});
  expect_has(refusal_of(complete), {"NCCL 2.18.5 (", "too old"});
}

TEST(NcclLibrary, AnotherMajorVersionIsRefused) {
  pretend("30102");
  expect_has(refusal_of(complete), {"NCCL 3.1.2 (", "built with the header of NCCL 2."});
}

TEST(NcclLibrary, MissingFunctionsAreNamed) {
  pretend("22809");
  expect_has(refusal_of(without_functions),
             {"NCCL 2.28.9 (", "lacks ncclAllGather, ncclAllReduce, ", "ncclSend, which"});
}

TEST(NcclLibrary, TheFileThatIsAskedForIsTaken) {
  pretend("22703");
  const NcclLibrary library = load_nccl(complete);
  EXPECT_EQ(library.version, (NcclVersion{2, 27, 3}));
  EXPECT_EQ(library.file, complete);
  EXPECT_EQ(library.GroupStart(), ncclInternalError);
  EXPECT_FALSE(library.windows.exist()) << "they are not needed";
  EXPECT_EQ(library.all_reduce_by, nullptr);
}

TEST(NcclLibrary, TheProgramsOwnIsPreferred) {
  pretend("22005");
  for (const int scope : {RTLD_GLOBAL, RTLD_LOCAL}) {
    hold_in_a_new_process([scope] {
      EXPECT_NE(dlopen(complete.c_str(), RTLD_NOW | scope), nullptr);
      const NcclLibrary library = load_nccl("");
      EXPECT_EQ(library.version, (NcclVersion{2, 20, 5}));
      EXPECT_EQ(library.file, complete);
    });
  }
}

TEST(NcclLibrary, IsTheSystemsOtherwise) {
  hold_in_a_new_process([] {
    try {
      const NcclLibrary library = load_nccl("");
      EXPECT_GE(library.version, (NcclVersion{2, 19, 0}));
      EXPECT_STREQ(library.GetErrorString(ncclSuccess), "no error");
    } catch (const Error& error) {  // NCCL is not installed
      expect_has(error.message(), {"libnccl.so.2: ", "Install NCCL 2", "LOCKSTEP_NCCL_LIBRARY"});
    }
  });
}

TEST(NcclLibrary, OfTheProcessIsWhatTheVariableNames) {
  pretend("22102");
  hold_in_a_new_process([] {
    setenv("LOCKSTEP_NCCL_LIBRARY", "/nonexistent", 1);
    EXPECT_THROW(nccl(), Error);
    setenv("LOCKSTEP_NCCL_LIBRARY", complete.c_str(), 1);
    EXPECT_EQ(nccl().version, (NcclVersion{2, 21, 2})) << "a call after one that failed tries again";
    setenv("LOCKSTEP_NCCL_LIBRARY", "/nonexistent", 1);
    EXPECT_EQ(nccl().file, complete) << "what is loaded stays";
  });
}

TEST(NcclLibrary, FaultsOfVersionsAreKnown) {
  for (const NcclVersion version : {NcclVersion{2, 28, 3}, NcclVersion{2, 28, 8}})
    expect_has(known_fault(version), {"NCCL 2.28.", "2.28.9 or newer"});
  for (const NcclVersion version : {NcclVersion{2, 27, 7}, NcclVersion{2, 28, 9}, NcclVersion{2, 30, 0}})
    EXPECT_EQ(known_fault(version), "");
}

}  // namespace
}  // namespace lockstep::backends
