// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace emulated_gpu {

/// A GPU, or an instance of one (MIG), as a description file has it.
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

/// That of EMULATED_GPU_MACHINE as CUDA_VISIBLE_DEVICES shows it; without devices where the first is not set.
/// @throws std::runtime_error that names the file and what is wrong with it
Machine read_machine();
/// What a process sees of the file's text. @param visible  CUDA_VISIBLE_DEVICES; nullptr where it is not set
/// @source CUDA C++ Programming Guide 13.0, environment variables, CUDA_VISIBLE_DEVICES; NVIDIA Multi-Instance GPU User
///         Guide, CUDA device enumeration: one instance at most
Machine parse_machine(const std::string& text, const char* visible);

}  // namespace emulated_gpu
