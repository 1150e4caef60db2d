// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// An order of work: the calling thread, or a CUDA stream. The stream is opaque, so that no header of the library needs
/// the toolkit.
class Queue {
 public:
  /// The calling thread: work is ordered by the program.
  static Queue host() { return Queue(nullptr); }
  /// A `cudaStream_t`. @pre `stream` is not the null stream
  static Queue stream(void* stream) { return Queue(stream); }

  [[nodiscard]] bool is_host() const { return native_ == nullptr; }
  [[nodiscard]] void* native() const { return native_; }

 private:
  explicit Queue(void* native) : native_(native) {}
  void* native_;
};

}  // namespace lockstep
