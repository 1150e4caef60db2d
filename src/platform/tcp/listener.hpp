// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "platform/tcp/connected_socket.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {

/// Listens for connections of ranks that know a secret word, on any port, on the interfaces of `InterfaceChoice`.
class TcpListener {
 public:
  /// @throws as job_secret() and own_addresses()
  TcpListener() : secret_(job_secret().value_or(random_word())) {
    const OwnAddresses own = own_addresses();
    // The job's secret is not told: ranks that belong to the job know it.
    TcpAddress address{.secret = job_secret() ? std::string(secret_of_job) : secret_, .hosts = own.hosts};
    const std::vector<std::string> listens = own.are_chosen ? own.hosts : std::vector<std::string>();
    for (Descriptor& one : open_sockets(SOCK_STREAM, listens, address.tcp)) sockets_.emplace_back(std::move(one));
    if (!sockets_.empty()) address_ = to_text(address);
  }

  /// Where others reach this rank, and the secret word; one line of text. Empty if no socket can be opened.
  [[nodiscard]] const std::string& address() const { return address_; }
  /// What those who connect must know.
  [[nodiscard]] const std::string& secret() const { return secret_; }
  /// None after close().
  [[nodiscard]] const std::vector<ConnectedSocket>& sockets() const { return sockets_; }
  void close() { sockets_.clear(); }

 private:
  std::string secret_;
  std::string address_;
  std::vector<ConnectedSocket> sockets_;
};

}  // namespace lockstep
