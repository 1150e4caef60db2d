// SPDX-License-Identifier: Apache-2.0
#include "platform/tcp/greeting.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

static_assert(sizeof(Greeting) == 40, "greetings have no padding");

constexpr std::chrono::milliseconds time_to_greet{2000};

}  // namespace

Greeting greeting_to(std::string_view secret, Purpose purpose, int own_rank) {
  Greeting greeting{.rank = own_rank, .purpose = purpose};
  std::copy_n(secret.begin(), std::min(secret.size(), greeting.secret.size()), greeting.secret.begin());
  return greeting;
}

bool is_same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    asm volatile("" : "+r"(different));  // so that no compiler ends the loop early
  }
  return different == 0;
}

bool knows(const Greeting& greeting, std::string_view secret) {
  const Greeting right = greeting_to(secret, greeting.purpose);
  return is_same_secret({greeting.secret.data(), greeting.secret.size()}, {right.secret.data(), right.secret.size()});
}

bool send_greeting(int connection, const Greeting& greeting) {
  return send(connection, &greeting, sizeof greeting, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof greeting;
}

bool Arrival::receive() {
  auto* const into = reinterpret_cast<char*>(&greeting_) + received_;
  const ssize_t count = recv(socket_.get(), into, sizeof greeting_ - received_, MSG_DONTWAIT);
  if (count <= 0) return !is_complete() && (count == 0 || (errno != EAGAIN && errno != EINTR));
  received_ += static_cast<std::size_t>(count);
  return false;
}

void Arrivals::accept_from(int listener, std::size_t at_most) {
  for (std::size_t accepted = 0; accepted < at_most; ++accepted) {
    Descriptor connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const bool has_too_many_files = !connection.open() && (errno == EMFILE || errno == ENFILE);
    if (!connection.open() && !has_too_many_files) return;
    if (connection.open()) waiting_.push_back({Arrival(std::move(connection)), Clock::now() + time_to_greet});
    if (!has_too_many_files && waiting_.size() <= most_) continue;
    if (waiting_.empty()) {  // the listener stays ready, so this would be tried again at once
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    waiting_.erase(waiting_.begin());
  }
}

std::vector<Arrival> Arrivals::those_who_know() {
  std::vector<Arrival> known;
  std::erase_if(waiting_, [&](Waiting& one) {
    if (one.arrival.receive()) return true;
    if (!one.arrival.is_complete()) return Clock::now() > one.end;
    if (knows(one.arrival.greeting(), secret_)) known.push_back(std::move(one.arrival));
    return true;
  });
  return known;
}

void Arrivals::add_to(std::vector<pollfd>& entries) const {
  for (const Waiting& one : waiting_) entries.push_back({one.arrival.socket(), POLLIN, 0});
}

Clock::time_point Arrivals::next_end() const {
  return waiting_.empty() ? Clock::time_point::max() : waiting_.front().end;
}

}  // namespace lockstep
