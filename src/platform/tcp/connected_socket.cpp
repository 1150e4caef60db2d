// SPDX-License-Identifier: Apache-2.0
#include "platform/tcp/connected_socket.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace lockstep {
namespace {

/// The connections of this process. It is never destroyed, because sockets may be closed at the very end.
struct Connections {
  std::mutex mutex;
  std::set<int> open;
  Descriptor nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};

  static Connections& all() {
    static Connections& connections = *new Connections;  // NOLINT(cppcoreguidelines-owning-memory)
    static const int registered = pthread_atfork([] { connections.mutex.lock(); }, [] { connections.mutex.unlock(); },
                                                 [] {
                                                   // Their numbers stay taken until they are closed.
                                                   for (const int socket : connections.open)
                                                     dup2(connections.nothing.get(), socket);
                                                   connections.open.clear();
                                                   connections.mutex.unlock();
                                                 });
    static_cast<void>(registered);
    return connections;
  }
};

}  // namespace

ConnectedSocket::ConnectedSocket(Descriptor socket) : socket_(std::move(socket)) {
  if (!socket_.open()) return;
  Connections& all = Connections::all();
  const std::scoped_lock lock(all.mutex);
  all.open.insert(socket_.get());
}

ConnectedSocket::~ConnectedSocket() {
  if (!socket_.open()) return;
  Connections& all = Connections::all();
  const std::scoped_lock lock(all.mutex);
  all.open.erase(socket_.get());
  const Descriptor closing = std::move(socket_);
}

}  // namespace lockstep
