// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/rendezvous.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "emulated_gpu/nccl/socket.hpp"

namespace emulated_gpu {
namespace {

constexpr std::uint32_t mark_of_ids = 0x6e63636c;

struct Id {
  std::uint32_t mark;
  sockaddr_in address;
  std::uint64_t number;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

Id read_id(const ncclUniqueId& id) {
  Id content{};
  std::memcpy(&content, &id, sizeof content);
  return content;
}

bool never() { return false; }

bool send_text(const Socket& socket, const std::string& text, const std::function<bool()>& stop) {
  const std::uint32_t size = static_cast<std::uint32_t>(text.size());
  return send_all(socket, &size, sizeof size, stop) && send_all(socket, text.data(), size, stop);
}

std::optional<std::string> receive_text(const Socket& socket, const std::function<bool()>& stop) {
  std::uint32_t size = 0;
  if (!receive_all(socket, &size, sizeof size, stop)) return std::nullopt;
  std::string text(size, '\0');
  if (!receive_all(socket, text.data(), size, stop)) return std::nullopt;
  return text;
}

/// The ranks that have come to one meeting.
struct Meeting {
  std::map<int, Socket> sockets;
  std::map<int, std::string> texts;
};

/// The thread that serves the port. It keeps the ranks that have come until all have.
class Root {
 public:
  Root() : listener_(listen_anywhere()), address_(address_of(listener_)) {
    std::thread([this] { serve(); }).detach();
  }
  [[nodiscard]] const sockaddr_in& address() const { return address_; }

 private:
  void serve() {
    for (;;) {
      Socket guest = accept_from(listener_);
      if (guest.is_open()) welcome(std::move(guest));
    }
  }

  void welcome(Socket guest) {
    std::int32_t who[2];  // rank and number of ranks
    if (!receive_all(guest, who, sizeof who, never)) return;
    const auto where = receive_text(guest, never);
    const auto text = where ? receive_text(guest, never) : std::nullopt;
    if (!text) return;
    Meeting& meeting = meetings_[*where];
    meeting.sockets[who[0]] = std::move(guest);
    meeting.texts[who[0]] = *text;
    if (static_cast<int>(meeting.texts.size()) < who[1]) return;
    // Rank 0 is last, because its process may be this one and may end when it has its answer.
    for (auto socket = meeting.sockets.rbegin(); socket != meeting.sockets.rend(); ++socket) {
      for (const auto& [rank, its_text] : meeting.texts) send_text(socket->second, its_text, never);
    }
    meetings_.erase(*where);
  }

  Socket listener_;
  sockaddr_in address_;
  std::map<std::string, Meeting> meetings_;
};

Root& root_of_process() {
  static auto* root = new Root;  // its thread runs until the process ends
  return *root;
}

}  // namespace

ncclUniqueId make_id() {
  std::random_device random;
  const Id content{mark_of_ids, root_of_process().address(), (std::uint64_t{random()} << 32) + random()};
  ncclUniqueId id{};
  std::memcpy(&id, &content, sizeof content);
  return id;
}

bool is_id(const ncclUniqueId& id) { return read_id(id).mark == mark_of_ids; }
std::uint64_t number_of(const ncclUniqueId& id) { return read_id(id).number; }

std::optional<std::vector<std::string>> meet(const ncclUniqueId& id, const std::string& where, int rank, int ranks,
                                             const std::string& mine, const std::function<bool()>& stop) {
  const Id content = read_id(id);
  const Socket socket = connect_to(content.address, stop);
  const std::int32_t who[2] = {rank, ranks};
  if (!socket.is_open() || !send_all(socket, who, sizeof who, stop) ||
      !send_text(socket, std::to_string(content.number) + " " + where, stop) || !send_text(socket, mine, stop)) {
    return std::nullopt;
  }
  std::vector<std::string> all;
  while (static_cast<int>(all.size()) < ranks) {
    auto text = receive_text(socket, stop);
    if (!text) return std::nullopt;
    all.push_back(*std::move(text));
  }
  return all;
}

}  // namespace emulated_gpu
