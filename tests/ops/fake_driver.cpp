// SPDX-License-Identifier: Apache-2.0
// A library libcuda.so.1 for machines without a driver: everything succeeds, nothing happens. cuDNN finds the functions
// there by which it loads the code that it has compiled, so that tests can have such code compiled.
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): names of the driver
extern "C" {
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuInit(unsigned /*flags*/) { return 100; }  // CUDA_ERROR_NO_DEVICE
int cuDeviceGetCount(int* count) {
  *count = 0;
  return 0;
}
int cuLibraryLoadData(void** library, const void* /*code*/, void* /*jit*/, void* /*jit_values*/, unsigned /*jit_count*/,
                      void* /*options*/, void* /*values*/, unsigned /*count*/) {
  *library = library;
  return 0;
}
int cuLibraryGetKernel(void** kernel, void* /*library*/, const char* /*name*/) {
  *kernel = kernel;
  return 0;
}
int cuKernelGetAttribute(int* value, int /*attribute*/, void* /*kernel*/, int /*device*/) {
  *value = 0;
  return 0;
}
#define LOCKSTEP_SUCCEED(name) \
  int name() { return 0; }
LOCKSTEP_SUCCEED(cuCtxGetCurrent)
LOCKSTEP_SUCCEED(cuCtxGetDevice)
LOCKSTEP_SUCCEED(cuCtxGetLimit)
LOCKSTEP_SUCCEED(cuCtxPopCurrent)
LOCKSTEP_SUCCEED(cuCtxPushCurrent)
LOCKSTEP_SUCCEED(cuDeviceGet)
LOCKSTEP_SUCCEED(cuDeviceGetAttribute)
LOCKSTEP_SUCCEED(cuGetErrorName)
LOCKSTEP_SUCCEED(cuGetErrorString)
LOCKSTEP_SUCCEED(cuKernelSetAttribute)
LOCKSTEP_SUCCEED(cuLaunchCooperativeKernel)
LOCKSTEP_SUCCEED(cuLaunchKernel)
LOCKSTEP_SUCCEED(cuLaunchKernelEx)
LOCKSTEP_SUCCEED(cuLibraryLoadFromFile)
LOCKSTEP_SUCCEED(cuLibraryUnload)
LOCKSTEP_SUCCEED(cuLinkAddData)
LOCKSTEP_SUCCEED(cuLinkComplete)
LOCKSTEP_SUCCEED(cuLinkCreate)
LOCKSTEP_SUCCEED(cuLinkDestroy)
LOCKSTEP_SUCCEED(cuOccupancyMaxActiveClusters)
LOCKSTEP_SUCCEED(cuOccupancyMaxPotentialClusterSize)
LOCKSTEP_SUCCEED(cuStreamGetCtx)
LOCKSTEP_SUCCEED(cuTensorMapEncodeIm2col)
LOCKSTEP_SUCCEED(cuTensorMapEncodeTiled)
}
// NOLINTEND(readability-identifier-naming)
