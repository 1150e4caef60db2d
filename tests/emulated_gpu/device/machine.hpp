// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace emulated_gpu {

/// A GPU, or an instance of one (MIG), as described in a file.
struct Device {
  std::string name = "emulated GPU";
  std::string uuid;  ///< "GPU-…" or "MIG-…"
  std::string pci = "0000:00:00.0";
  std::size_t memory = std::size_t{1} << 30;
  int sms = 132;
  int major = 9;  ///< compute capability
  int minor = 0;
};

struct Machine {
  int driver = 13000;
  bool concurrent_managed_access = true;
  std::vector<Device> devices;
};

/// Returns the machine of EMULATED_GPU_MACHINE, limited by CUDA_VISIBLE_DEVICES; it has no devices if the former is not
/// set.
/// @throws std::runtime_error that names the file and the error in it
Machine read_machine();
/// Returns the devices of the file's text that a process sees. @param visible  CUDA_VISIBLE_DEVICES; nullptr if not set
/// @source CUDA C++ Programming Guide 13.0, environment variables, CUDA_VISIBLE_DEVICES; NVIDIA Multi-Instance GPU User
///         Guide, CUDA device enumeration: one instance at most
Machine parse_machine(const std::string& text, const char* visible);

}  // namespace emulated_gpu
