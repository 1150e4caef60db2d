// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/text_file.hpp"

namespace lockstep {

/// Owns a connection to another process, or a socket that listens for connections, and closes it at the end. A child of
/// fork() closes its copy at once: otherwise other processes would not notice that this one has ended, as long as the
/// child lives. Move-only.
class ConnectedSocket {
 public:
  ConnectedSocket() = default;
  explicit ConnectedSocket(Descriptor socket);
  ConnectedSocket(ConnectedSocket&&) noexcept = default;
  ConnectedSocket& operator=(ConnectedSocket&&) noexcept = default;
  ConnectedSocket(const ConnectedSocket&) = delete;
  ConnectedSocket& operator=(const ConnectedSocket&) = delete;
  ~ConnectedSocket();

  [[nodiscard]] int get() const { return socket_.get(); }
  [[nodiscard]] bool open() const { return socket_.open(); }

 private:
  Descriptor socket_;
};

}  // namespace lockstep
