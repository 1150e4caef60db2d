// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/cuda/error.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "emulated_gpu/cuda/runtime.hpp"

namespace emulated_gpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;  ///< null: use the name
};

#define EMULATED_GPU_ERROR(code, text) \
  ErrorText { code, #code, text }
constexpr std::array error_texts = {
    EMULATED_GPU_ERROR(cudaSuccess, "no error"),
    EMULATED_GPU_ERROR(cudaErrorInvalidValue, "invalid argument"),
    EMULATED_GPU_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    EMULATED_GPU_ERROR(cudaErrorInitializationError, "initialization error"),
    EMULATED_GPU_ERROR(cudaErrorCudartUnloading, nullptr),
    EMULATED_GPU_ERROR(cudaErrorProfilerDisabled, nullptr),
    EMULATED_GPU_ERROR(cudaErrorProfilerNotInitialized, nullptr),
    EMULATED_GPU_ERROR(cudaErrorProfilerAlreadyStarted, nullptr),
    EMULATED_GPU_ERROR(cudaErrorProfilerAlreadyStopped, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    EMULATED_GPU_ERROR(cudaErrorInvalidPitchValue, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidSymbol, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidHostPointer, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidDevicePointer, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidTexture, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidTextureBinding, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidChannelDescriptor, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    EMULATED_GPU_ERROR(cudaErrorAddressOfConstant, nullptr),
    EMULATED_GPU_ERROR(cudaErrorTextureFetchFailed, nullptr),
    EMULATED_GPU_ERROR(cudaErrorTextureNotBound, nullptr),
    EMULATED_GPU_ERROR(cudaErrorSynchronizationError, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidFilterSetting, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidNormSetting, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMixedDeviceExecution, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNotYetImplemented, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMemoryValueTooLarge, nullptr),
    EMULATED_GPU_ERROR(cudaErrorStubLibrary, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    EMULATED_GPU_ERROR(cudaErrorCallRequiresNewerDriver, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidSurface, nullptr),
    EMULATED_GPU_ERROR(cudaErrorDuplicateVariableName, nullptr),
    EMULATED_GPU_ERROR(cudaErrorDuplicateTextureName, nullptr),
    EMULATED_GPU_ERROR(cudaErrorDuplicateSurfaceName, nullptr),
    EMULATED_GPU_ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    EMULATED_GPU_ERROR(cudaErrorIncompatibleDriverContext, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMissingConfiguration, nullptr),
    EMULATED_GPU_ERROR(cudaErrorPriorLaunchFailure, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLaunchMaxDepthExceeded, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLaunchFileScopedTex, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLaunchFileScopedSurf, nullptr),
    EMULATED_GPU_ERROR(cudaErrorSyncDepthExceeded, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLaunchPendingCountExceeded, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    EMULATED_GPU_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    EMULATED_GPU_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    EMULATED_GPU_ERROR(cudaErrorDeviceNotLicensed, nullptr),
    EMULATED_GPU_ERROR(cudaErrorSoftwareValidityNotEstablished, nullptr),
    EMULATED_GPU_ERROR(cudaErrorStartupFailure, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidKernelImage, nullptr),
    EMULATED_GPU_ERROR(cudaErrorDeviceUninitialized, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMapBufferObjectFailed, nullptr),
    EMULATED_GPU_ERROR(cudaErrorUnmapBufferObjectFailed, nullptr),
    EMULATED_GPU_ERROR(cudaErrorArrayIsMapped, nullptr),
    EMULATED_GPU_ERROR(cudaErrorAlreadyMapped, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNoKernelImageForDevice, nullptr),
    EMULATED_GPU_ERROR(cudaErrorAlreadyAcquired, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNotMapped, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNotMappedAsArray, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNotMappedAsPointer, nullptr),
    EMULATED_GPU_ERROR(cudaErrorECCUncorrectable, nullptr),
    EMULATED_GPU_ERROR(cudaErrorUnsupportedLimit, nullptr),
    EMULATED_GPU_ERROR(cudaErrorDeviceAlreadyInUse, nullptr),
    EMULATED_GPU_ERROR(cudaErrorPeerAccessUnsupported, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidPtx, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidGraphicsContext, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNvlinkUncorrectable, nullptr),
    EMULATED_GPU_ERROR(cudaErrorJitCompilerNotFound, nullptr),
    EMULATED_GPU_ERROR(cudaErrorUnsupportedPtxVersion, nullptr),
    EMULATED_GPU_ERROR(cudaErrorJitCompilationDisabled, nullptr),
    EMULATED_GPU_ERROR(cudaErrorUnsupportedExecAffinity, nullptr),
    EMULATED_GPU_ERROR(cudaErrorUnsupportedDevSideSync, nullptr),
    EMULATED_GPU_ERROR(cudaErrorContained, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidSource, nullptr),
    EMULATED_GPU_ERROR(cudaErrorFileNotFound, nullptr),
    EMULATED_GPU_ERROR(cudaErrorSharedObjectSymbolNotFound, nullptr),
    EMULATED_GPU_ERROR(cudaErrorSharedObjectInitFailed, nullptr),
    EMULATED_GPU_ERROR(cudaErrorOperatingSystem, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    EMULATED_GPU_ERROR(cudaErrorIllegalState, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLossyQuery, nullptr),
    EMULATED_GPU_ERROR(cudaErrorSymbolNotFound, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNotReady, "device not ready"),
    EMULATED_GPU_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    EMULATED_GPU_ERROR(cudaErrorLaunchOutOfResources, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLaunchTimeout, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLaunchIncompatibleTexturing, nullptr),
    EMULATED_GPU_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    EMULATED_GPU_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    EMULATED_GPU_ERROR(cudaErrorSetOnActiveProcess, nullptr),
    EMULATED_GPU_ERROR(cudaErrorContextIsDestroyed, nullptr),
    EMULATED_GPU_ERROR(cudaErrorAssert, nullptr),
    EMULATED_GPU_ERROR(cudaErrorTooManyPeers, nullptr),
    EMULATED_GPU_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                       "part or all of the requested memory range is already mapped"),
    EMULATED_GPU_ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    EMULATED_GPU_ERROR(cudaErrorHardwareStackError, nullptr),
    EMULATED_GPU_ERROR(cudaErrorIllegalInstruction, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMisalignedAddress, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidAddressSpace, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidPc, nullptr),
    EMULATED_GPU_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    EMULATED_GPU_ERROR(cudaErrorCooperativeLaunchTooLarge, nullptr),
    EMULATED_GPU_ERROR(cudaErrorTensorMemoryLeak, nullptr),
    EMULATED_GPU_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    EMULATED_GPU_ERROR(cudaErrorNotSupported, "operation not supported"),
    EMULATED_GPU_ERROR(cudaErrorSystemNotReady, nullptr),
    EMULATED_GPU_ERROR(cudaErrorSystemDriverMismatch, nullptr),
    EMULATED_GPU_ERROR(cudaErrorCompatNotSupportedOnDevice, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMpsConnectionFailed, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMpsRpcFailure, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMpsServerNotReady, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMpsMaxClientsReached, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMpsMaxConnectionsReached, nullptr),
    EMULATED_GPU_ERROR(cudaErrorMpsClientTerminated, nullptr),
    EMULATED_GPU_ERROR(cudaErrorCdpNotSupported, nullptr),
    EMULATED_GPU_ERROR(cudaErrorCdpVersionMismatch, nullptr),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureImplicit,
                       "operation would make the legacy stream depend on a capturing blocking stream"),
    EMULATED_GPU_ERROR(cudaErrorCapturedEvent,
                       "operation not permitted on an event last recorded in a capturing stream"),
    EMULATED_GPU_ERROR(cudaErrorStreamCaptureWrongThread,
                       "attempt to terminate a thread-local capture sequence from another thread"),
    EMULATED_GPU_ERROR(cudaErrorTimeout, nullptr),
    EMULATED_GPU_ERROR(cudaErrorGraphExecUpdateFailure,
                       "the graph update was not performed because it included changes which violated constraints "
                       "specific to instantiated graph update"),
    EMULATED_GPU_ERROR(cudaErrorExternalDevice, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidClusterSize, nullptr),
    EMULATED_GPU_ERROR(cudaErrorFunctionNotLoaded, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidResourceType, nullptr),
    EMULATED_GPU_ERROR(cudaErrorInvalidResourceConfiguration, nullptr),
    EMULATED_GPU_ERROR(cudaErrorUnknown, "unknown error"),
    EMULATED_GPU_ERROR(cudaErrorApiFailureBase, nullptr),
};
#undef EMULATED_GPU_ERROR

const ErrorText* find_error(cudaError_t code) {
  const auto* found =
      std::find_if(error_texts.begin(), error_texts.end(), [code](const ErrorText& e) { return e.code == code; });
  return found == error_texts.end() ? nullptr : found;
}

}  // namespace

void set_last_error(cudaError_t error) { last_error = error; }

cudaError_t error_named(const std::string& name) {
  const auto* found =
      std::find_if(error_texts.begin(), error_texts.end(), [&name](const ErrorText& e) { return name == e.name; });
  return found == error_texts.end() ? cudaErrorUnknown : found->code;
}

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

/// Returns the thread's last error. The error of a failed device is permanent.
cudaError_t last_error_of_thread(bool forget) {
  const std::scoped_lock lock(device_lock());
  const Runtime& runtime = Runtime::instance();
  if (!runtime.devices.empty() && state_of(current_gpu()).sticky != cudaSuccess) return state_of(current_gpu()).sticky;
  const cudaError_t error = last_error;
  if (forget) last_error = cudaSuccess;
  return error;
}

}  // namespace emulated_gpu

extern "C" {

cudaError_t cudaGetLastError() { return emulated_gpu::last_error_of_thread(true); }
cudaError_t cudaPeekAtLastError() { return emulated_gpu::last_error_of_thread(false); }

const char* cudaGetErrorName(cudaError_t error) {
  const auto* found = emulated_gpu::find_error(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* found = emulated_gpu::find_error(error);
  if (found == nullptr) return "unrecognized error code";
  return found->text == nullptr ? found->name : found->text;
}

}  // extern "C"
