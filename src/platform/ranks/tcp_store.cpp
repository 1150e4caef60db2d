// SPDX-License-Identifier: Apache-2.0
// This file implements a key-value store that one process serves over TCP, and its clients.
// @source torch/csrc/distributed/c10d/TCPStoreBackend.hpp of PyTorch 2.15: the numbers of the requests
#include "platform/ranks/tcp_store.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/text_file.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/tcp/connected_socket.hpp"
#include "platform/tcp/tcp.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Querys begin with one of these bytes. Texts follow, each with its length in 64 bits before it.
enum class Query : std::uint8_t {
  validate = 0,  // a number, which shows that the client speaks this protocol
  set = 1,       // key, value
  get = 3,       // key; the answer is its value
  check = 5,     // the number of keys, and keys; the answer is a byte: 0 if all have values, else 1
};
constexpr std::uint32_t magic = 0x3C85F7CE;
constexpr std::uint64_t most_bytes_of_a_text = std::uint64_t{64} << 20;

void append(std::string& to, std::string_view text) {
  const std::uint64_t length = text.size();
  to.append(reinterpret_cast<const char*>(&length), sizeof length);
  to += text;
}

template <typename Number>
void append_number(std::string& to, Number number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string what_errno_says() { return std::generic_category().message(errno); }

/// @return whether all could be sent; if not, errno says why
bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// Reads a request from its beginning, as far as it has arrived.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename Number>
  std::optional<Number> number() {
    Number value{};
    if (bytes_.size() - at_ < sizeof value) return std::nullopt;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::optional<std::string> text() {
    const auto length = number<std::uint64_t>();
    if (!length) return std::nullopt;
    is_too_long_ = is_too_long_ || *length > most_bytes_of_a_text;
    if (is_too_long_ || bytes_.size() - at_ < *length) return std::nullopt;
    at_ += *length;
    return std::string(bytes_.substr(at_ - *length, *length));
  }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] bool is_too_long() const { return is_too_long_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool is_too_long_ = false;
};

/// Serves values to clients by a thread of its own. A client has 2 s for its first request, and many that have not made
/// one do not keep others away. A client that does not read its answers delays only itself.
class Server {
 public:
  /// @param hosts  where to listen; none: at all addresses of this host
  /// @param port   0: any that is free; set to the port
  Server(const std::vector<std::string>& hosts, std::uint16_t& port)
      : host_(hosts.empty() ? "localhost" : hosts.front()) {
    for (Descriptor& one : open_sockets(SOCK_STREAM, hosts, port)) listeners_.emplace_back(std::move(one));
    if (listeners_.empty()) {
      throw Error(ErrorCode::transport, "cannot serve the store on port " + std::to_string(port) + ": " +
                                            what_errno_says() + "; choose another port");
    }
    thread_ = std::thread([this] { serve(); });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Clients may still read what this process has written last, so it waits a little for them to end.
  ~Server() {
    const std::uint64_t one = 1;
    (void)!::write(end_.get(), &one, sizeof one);
    thread_.join();
  }

  /// Where this process reaches it.
  [[nodiscard]] const std::string& host() const { return host_; }

 private:
  struct Client {
    ConnectedSocket socket;
    Clock::time_point end;  // of the time for its first request
    std::string arrived;
    std::string leaving;    // an answer that the connection has not taken whole
    std::size_t sent = 0;   // of it
    bool is_valid = false;  // whether the first request has come
  };

  void serve() {
    constexpr std::chrono::seconds farewell{3};
    std::optional<Clock::time_point> end;
    while (!end || (!clients_.empty() && Clock::now() < *end)) {
      std::vector<pollfd> entries{{end ? -1 : end_.get(), POLLIN, 0}};
      Clock::time_point until = end.value_or(Clock::time_point::max());
      for (const Client& client : clients_) {
        // What follows a request whose answer is still leaving is read later.
        entries.push_back({client.socket.get(), static_cast<short>(client.leaving.empty() ? POLLIN : POLLOUT), 0});
        if (!client.is_valid) until = std::min(until, client.end);
      }
      const std::size_t first_listener = entries.size();
      for (const ConnectedSocket& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
      poll(entries.data(), entries.size(), until == Clock::time_point::max() ? -1 : milliseconds_until(until));
      if (entries[0].revents != 0) end = Clock::now() + farewell;
      for (std::size_t i = clients_.size(); i-- > 0;)
        if (entries[i + 1].revents != 0 && !serve(clients_[i]))
          clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
      for (std::size_t i = 0; i < listeners_.size(); ++i)
        if (entries[first_listener + i].revents != 0) accept_from(listeners_[i].get());
      std::erase_if(clients_, [now = Clock::now()](const Client& one) { return !one.is_valid && one.end < now; });
    }
  }

  void accept_from(int listener) {
    constexpr int at_a_time = 64;
    constexpr std::ptrdiff_t most_that_say_nothing = 256;
    constexpr std::chrono::seconds time_for_first_request{2};
    const auto says_nothing = [](const Client& client) { return !client.is_valid; };
    for (int accepted = 0; accepted < at_a_time; ++accepted) {
      Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const bool has_too_many_files = !socket.open() && (errno == EMFILE || errno == ENFILE);
      if (!socket.open() && !has_too_many_files) return;
      if (socket.open()) {
        const int on = 1;
        setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        clients_.push_back({.socket = ConnectedSocket(std::move(socket)),
                            .end = Clock::now() + time_for_first_request,
                            .arrived = {},
                            .leaving = {}});
      }
      if (!has_too_many_files && std::ranges::count_if(clients_, says_nothing) <= most_that_say_nothing) continue;
      const auto oldest = std::ranges::find_if(clients_, says_nothing);
      if (oldest == clients_.end()) {  // the listener stays ready, so this would be tried again at once
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      clients_.erase(oldest);
    }
  }

  /// @return whether the connection goes on
  bool serve(Client& client) {
    if (!client.leaving.empty() && !send_answer(client)) return false;
    if (!client.leaving.empty()) return true;
    std::array<char, 65536> piece{};
    const ssize_t count = recv(client.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    client.arrived.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    while (!client.arrived.empty() && client.leaving.empty()) {
      Reader reader(client.arrived);
      const bool is_good = answer(client, reader);
      if (!is_good || reader.is_too_long()) return false;
      if (reader.at() == 0) return true;  // a part is missing
      client.arrived.erase(0, reader.at());
    }
    return true;
  }

  /// Answers a request if all of it has arrived; otherwise the reader is at the beginning afterwards.
  /// @return whether it is a request
  bool answer(Client& client, Reader& reader) {
    Reader at_begin = reader;
    const auto kind = reader.number<std::uint8_t>();
    std::optional<std::string> reply;
    if (!client.is_valid && static_cast<Query>(*kind) != Query::validate) return false;
    switch (static_cast<Query>(*kind)) {
      case Query::validate:
        if (const auto number = reader.number<std::uint32_t>()) {
          client.is_valid = *number == magic;
          if (!client.is_valid) return false;
          reply = "";
        }
        break;
      case Query::set: reply = set(reader); break;
      case Query::get: reply = get(reader); break;
      case Query::check: reply = check(reader); break;
      default: return false;
    }
    if (!reply) {
      const bool is_good = !reader.is_too_long();
      reader = at_begin;
      return is_good;
    }
    client.leaving = *std::move(reply);
    return send_answer(client);
  }

  /// Sends as much of the answer as the connection takes. @return whether it goes on
  static bool send_answer(Client& client) {
    const std::string_view rest = std::string_view(client.leaving).substr(client.sent);
    const ssize_t count = send(client.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<std::size_t>(count);
    if (client.sent == client.leaving.size()) {
      client.leaving.clear();
      client.sent = 0;
    }
    return true;
  }

  std::optional<std::string> set(Reader& reader) {
    const auto key = reader.text();
    auto value = key ? reader.text() : std::nullopt;
    if (!value) return std::nullopt;
    values_[*key] = *std::move(value);
    return "";
  }
  std::optional<std::string> get(Reader& reader) {
    const auto key = reader.text();
    if (!key) return std::nullopt;
    std::string reply;
    const auto value = values_.find(*key);  // clients have checked that it is there
    append(reply, value == values_.end() ? "" : value->second);
    return reply;
  }
  std::optional<std::string> check(Reader& reader) {
    const auto keys = reader.number<std::uint64_t>();
    bool are_all_there = true;
    for (std::uint64_t i = 0; keys && i < *keys; ++i) {
      const auto key = reader.text();
      if (!key) return std::nullopt;
      are_all_there = are_all_there && values_.contains(*key);
    }
    if (!keys) return std::nullopt;
    return std::string(1, are_all_there ? '\0' : '\1');
  }

  std::vector<ConnectedSocket> listeners_;
  std::string host_;
  Descriptor end_{eventfd(0, EFD_CLOEXEC)};
  std::vector<Client> clients_;
  std::map<std::string, std::string> values_;
  std::thread thread_;
};

class TcpStore final : public KeyValueStore {
 public:
  /// Connects to the store of another process.
  TcpStore(std::string host, std::uint16_t port, Seconds at_most) : host_(std::move(host)), port_(port) {
    meet(host_, at_most);
  }
  /// Serves it. @param hosts  as for Server
  TcpStore(std::string host, std::uint16_t port, const std::vector<std::string>& hosts, Seconds at_most)
      : host_(std::move(host)), port_(port), server_(std::make_unique<Server>(hosts, port_)) {
    meet(server_->host(), at_most);
  }

  void set(const std::string& key, const std::string& value) override {
    std::string request{static_cast<char>(Query::set)};
    append(request, key);
    append(request, value);
    const std::scoped_lock lock(mutex_);
    send(request);
  }

  std::optional<std::string> get(const std::string& key, Seconds at_most) override {
    constexpr std::chrono::microseconds longest_sleep{10'000};
    std::chrono::microseconds sleep{100};
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(at_most);
    while (!has(key)) {
      if (Clock::now() >= end) return std::nullopt;
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, longest_sleep);
    }
    std::string request{static_cast<char>(Query::get)};
    append(request, key);
    const std::scoped_lock lock(mutex_);
    send(request);
    std::uint64_t length = 0;
    receive(&length, sizeof length);
    if (length > most_bytes_of_a_text) fail("its answer is not one of this protocol");
    std::string value(length, '\0');
    receive(value.data(), length);
    return value;
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::transport, "the store at " + host_ + " port " + std::to_string(port_) + ": " + why);
  }

  bool has(const std::string& key) {
    std::string request{static_cast<char>(Query::check)};
    append_number(request, std::uint64_t{1});
    append(request, key);
    const std::scoped_lock lock(mutex_);
    send(request);
    std::uint8_t is_missing = 0;
    receive(&is_missing, 1);
    return is_missing == 0;
  }

  void meet(const std::string& to, Seconds at_most) {
    connect(to, at_most);
    std::string hello{static_cast<char>(Query::validate)};
    append_number(hello, magic);
    send(hello);
  }

  void connect(const std::string& to, Seconds at_most) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(at_most);
    std::string why;
    do {
      addrinfo hints{};
      hints.ai_socktype = SOCK_STREAM;
      addrinfo* found = nullptr;
      const int failure = getaddrinfo(to.c_str(), std::to_string(port_).c_str(), &hints, &found);
      if (failure != 0) why = gai_strerror(failure);
      for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
        Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (socket.open() && ::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0) {
          socket_ = ConnectedSocket(std::move(socket));
          break;
        }
        why = what_errno_says();
      }
      if (found != nullptr) freeaddrinfo(found);
      if (socket_.open()) {
        const int on = 1;
        setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (Clock::now() < end);
    fail("no connection within " + std::to_string(static_cast<int>(at_most.count())) + " s: " + why);
  }

  void send(const std::string& request) {
    if (!send_all(socket_.get(), request)) fail(what_errno_says());
  }
  void receive(void* into, std::size_t bytes) {
    for (std::size_t received = 0; received < bytes;) {
      const ssize_t count = recv(socket_.get(), static_cast<char*>(into) + received, bytes - received, 0);
      if (count == 0) fail("the process that serves it has ended");
      if (count < 0 && errno != EINTR) fail(what_errno_says());
      if (count > 0) received += static_cast<std::size_t>(count);
    }
  }

  std::string host_;
  std::uint16_t port_;
  std::unique_ptr<Server> server_;
  std::mutex mutex_;
  ConnectedSocket socket_;  // closed before the server waits for its clients
};

/// Where a store listens that others know by this host: only there if it is an address of this machine. For a name it
/// listens at the addresses of the interfaces that the user has chosen, or else at all, since the name may stand for
/// other ones on other hosts.
std::vector<std::string> places_to_listen(const std::string& host) {
  if (host == "localhost") return {"127.0.0.1"};
  std::uint16_t any = 0;
  if (socket_address(host, 0).length != 0 && !open_sockets(SOCK_DGRAM, {host}, any).empty()) return {host};
  OwnAddresses own = own_addresses();
  return own.are_chosen ? std::move(own.hosts) : std::vector<std::string>();
}

}  // namespace

std::unique_ptr<KeyValueStore> serve_store(const std::vector<std::string>& hosts, std::uint16_t& port) {
  auto store = std::make_unique<TcpStore>("this process", 0, hosts, usual_deadline);
  port = store->port();
  return store;
}

std::unique_ptr<KeyValueStore> make_tcp_store(const std::string& host, std::uint16_t port, bool serves,
                                              std::chrono::duration<double> at_most) {
  if (!serves) return std::make_unique<TcpStore>(host, port, at_most);
  return std::make_unique<TcpStore>(host, port, places_to_listen(host), at_most);
}

}  // namespace lockstep
