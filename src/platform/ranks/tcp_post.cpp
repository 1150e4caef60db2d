// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/tcp_post.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>

#include "platform/ranks/connector.hpp"

namespace lockstep {
namespace {

/// A text on a connection has its length before it.
class TcpPost final : public ControlChannel::Post {
 public:
  explicit TcpPost(std::vector<Connection> connections) {
    for (Connection& connection : connections) lines_[connection.rank].socket = std::move(connection.socket);
  }

  void send(const std::vector<int>& ranks, const std::string& text, Delivery /*delivery*/) override {
    const auto length = static_cast<std::uint32_t>(text.size());
    for (const int rank : ranks) {
      Line& line = lines_.at(rank);
      line.unsent.append(reinterpret_cast<const char*>(&length), sizeof length);
      line.unsent += text;
      flush(line);
    }
  }

  /// What has left arrives before anything that is sent later, and no later communicator uses these connections.
  bool is_acknowledged() override { return flush_all(); }

  void push() override {
    constexpr std::chrono::milliseconds at_most{20};
    const auto begin = std::chrono::steady_clock::now();
    while (!flush_all() && std::chrono::steady_clock::now() - begin < at_most) std::this_thread::yield();
  }

  std::optional<std::string> receive() override {
    (void)flush_all();
    for (auto& [rank, line] : lines_) {
      std::optional<std::string> text = take_text(line);
      if (!text && read(line)) text = take_text(line);
      if (text) return text;
    }
    return std::nullopt;
  }

  void close() override { lines_.clear(); }

 private:
  struct Line {
    ConnectedSocket socket;
    std::string unsent;
    std::string arrived;
  };

  /// A rank that has ended keeps the others from nothing: a text to it counts as sent.
  static void flush(Line& line) {
    while (!line.unsent.empty()) {
      const ssize_t count =
          ::send(line.socket.get(), line.unsent.data(), line.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) return;
      if (count < 0) return line.unsent.clear();
      line.unsent.erase(0, static_cast<std::size_t>(count));
    }
  }
  /// @return whether nothing is left
  bool flush_all() {
    bool is_empty = true;
    for (auto& [rank, line] : lines_) {
      flush(line);
      is_empty = is_empty && line.unsent.empty();
    }
    return is_empty;
  }

  /// @return whether something has arrived
  static bool read(Line& line) {
    std::array<char, 4096> piece{};
    const ssize_t count = recv(line.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count > 0) line.arrived.append(piece.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  static std::optional<std::string> take_text(Line& line) {
    std::uint32_t length = 0;
    if (line.arrived.size() < sizeof length) return std::nullopt;
    std::memcpy(&length, line.arrived.data(), sizeof length);
    if (line.arrived.size() < sizeof length + length) return std::nullopt;
    std::string text = line.arrived.substr(sizeof length, length);
    line.arrived.erase(0, sizeof length + length);
    return text;
  }

  std::map<int, Line> lines_;  // by rank
};

}  // namespace

std::unique_ptr<ControlChannel::Post> make_tcp_post(const RankSet& set, const std::vector<int>& elsewhere) {
  std::string why_not;
  auto connections = connect_ranks(set, elsewhere, why_not);
  if (connections) return std::make_unique<TcpPost>(*std::move(connections));
  throw Error(ErrorCode::transport, "the ranks cannot be connected: " + why_not,
              {.rank = set.rank().value, .host = set.host()})
      .on_every_rank();
}

}  // namespace lockstep
