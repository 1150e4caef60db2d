// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <string>

namespace lockstep::ops::cuda {

/// The functions that lockstep calls beside cudnnGetVersion, without their prefix "cudnn".
// clang-format off
#define LOCKSTEP_CUDNN_FUNCTIONS(use)                                                    \
  use(BackendCreateDescriptor) use(BackendDestroyDescriptor) use(BackendExecute)         \
  use(BackendFinalize) use(BackendGetAttribute) use(BackendSetAttribute) use(Create)     \
  use(Destroy) use(GetErrorString) use(GetLastErrorString) use(SetStream)
// clang-format on

/// A loaded cuDNN. lockstep is compiled with cuDNN's header and is not linked with its library, so that programs start
/// where it is missing, and a program can bring the library that it needs itself. The library stays loaded.
struct CudnnLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares a member
#define LOCKSTEP_CUDNN_POINTER(name) decltype(&::cudnn##name) name = nullptr;
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_CUDNN_POINTER)
#undef LOCKSTEP_CUDNN_POINTER
  std::size_t number = 0;  ///< 91900
  std::string version;     ///< "9.19.0"
  std::string file;        ///< the file that the functions come from
};

/// Loads cuDNN from `file` or, if that is empty, as the libcudnn.so.9 that the process has loaded or the loader finds.
/// @throws Error{unsupported} that says what was tried, what the library lacks, and what to install or set
CudnnLibrary load_cudnn(const std::string& file);

/// Returns the cuDNN of this process. The first call loads it, from the file that the variable LOCKSTEP_CUDNN_LIBRARY
/// names if it is set; a call after a failed one tries again. @throws as load_cudnn
const CudnnLibrary& cudnn();

/// Returns cuDNN's text for a status and, if it has one, its message about the last error of this thread.
std::string text_of(cudnnStatus_t status);

}  // namespace lockstep::ops::cuda
