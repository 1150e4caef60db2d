// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/descriptor_passing.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "support/verdict.hpp"

namespace lockstep {
namespace {

constexpr Bytes two_pages{8192};
constexpr std::uint64_t nonce = 0x1234567890abcdefU;
constexpr std::chrono::seconds usual{5};  // far below the deadline, and far above the usual time

int connected_socket(const std::string& name, int flags) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(&address.sun_path[1], name.data(), name.size());
  const int made = socket(AF_UNIX, SOCK_STREAM | flags, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), length) == 0) return made;
  close(made);
  return -1;
}

/// Another process, which reports when it has begun and runs until it is killed.
class Other {
 public:
  explicit Other(const std::function<void(int ready)>& act) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      act(ends[1]);
      _exit(0);
    }
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

void say_ready(int ready) {
  if (write(ready, "r", 1) != 1) _exit(1);
}

/// Connects repeatedly, sends nothing, and keeps all connections as long as it has descriptors.
void fill_queue(const std::string& name, int ready) {
  for (int held = 0;; ++held) {
    if (held == 2000) say_ready(ready);
    if (connected_socket(name, SOCK_NONBLOCK) < 0) usleep(10);
  }
}

FileIdentity identity_of_received(const DescriptorSender& sender, std::uint64_t shown,
                                  std::chrono::milliseconds at_most = std::chrono::seconds(60)) {
  const Descriptor received = receive_descriptor(sender.name(), shown, at_most);
  return identity_of("/proc/self/fd/" + std::to_string(received.get()));
}

TEST(DescriptorSender, GivesTheFileThoughAnotherProcessFillsItsQueue) {
  const SharedFile file(two_pages);
  const DescriptorSender sender(file.descriptor(), nonce);
  const Other hostile([&](int ready) { fill_queue(sender.name(), ready); });
  const auto begin = std::chrono::steady_clock::now();
  for (int receiver = 0; receiver < 3; ++receiver) EXPECT_EQ(identity_of_received(sender, nonce), file.identity());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, usual);
}

TEST(DescriptorSender, GivesNothingToWhoDoesNotKnowTheNonce) {
  const SharedFile file(two_pages);
  const DescriptorSender sender(file.descriptor(), nonce);
  EXPECT_THROW((void)identity_of_received(sender, nonce + 1, std::chrono::milliseconds(100)), Error);
  EXPECT_EQ(identity_of_received(sender, nonce), file.identity());
}

TEST(DescriptorSender, GivesNothingToAnotherUserWhoKnowsTheNonce) {
  if (geteuid() != 0) LOCKSTEP_SKIP(namespaces) << "only root can become another user";
  const SharedFile file(two_pages);
  const DescriptorSender sender(file.descriptor(), nonce);
  const Other stranger([&](int ready) {
    constexpr uid_t another = 12345;
    const bool has_become_another = setuid(another) == 0;
    const int connection = connected_socket(sender.name(), 0);
    const bool is_sent = send(connection, &nonce, sizeof nonce, MSG_NOSIGNAL) == sizeof nonce;
    char byte = 0;
    const bool is_closed = !is_sent || recv(connection, &byte, 1, 0) <= 0;
    if (has_become_another && connection >= 0 && is_closed) say_ready(ready);
  });
}

TEST(DescriptorSender, EndsWhileOthersAreConnected) {
  const SharedFile file(two_pages);
  const DescriptorSender sender(file.descriptor(), nonce);
  EXPECT_GE(connected_socket(sender.name(), 0), 0);
}

TEST(OpenDescriptorOf, FindsTheFileOfAnotherProcess) {
  const SharedFile file(two_pages);
  const pid_t parent = getpid();
  const Other child([&](int ready) {
    close(open("/dev/null", O_RDONLY));
    SharedFile seen(open_descriptor_of(parent, file.descriptor(), file.identity()), two_pages, file.identity());
    seen.data()[5000] = std::byte{7};
    say_ready(ready);
  });
  EXPECT_EQ(file.data()[5000], std::byte{7});
}

TEST(OpenDescriptorOf, OpensNoOtherFileThanTheOneMeant) {
  const SharedFile file(two_pages);
  const SharedFile other(two_pages);
  EXPECT_FALSE(open_descriptor_of(getpid(), file.descriptor(), other.identity()).open());
  EXPECT_FALSE(open_descriptor_of(getpid(), 9999, file.identity()).open());
}

void expect_rejected(Descriptor received, const FileIdentity& expected, const std::string& why) {
  try {
    const SharedFile file(std::move(received), two_pages, expected);
    FAIL() << "a foreign file was mapped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_NE(error.message().find(why), std::string::npos) << error.what();
  }
}

TEST(SharedFile, MapsNoFileThatItsOwnerCanMakeShorter) {
  Descriptor unsealed(memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), two_pages.value), 0);
  const FileIdentity its_own = identity_of("/proc/self/fd/" + std::to_string(unsealed.get()));
  expect_rejected(std::move(unsealed), its_own, "could change its size");
}

TEST(SharedFile, MapsNoOtherFileThanTheOneMeant) {
  const SharedFile meant(two_pages);
  const SharedFile another(two_pages);
  expect_rejected(Descriptor(dup(another.descriptor())), meant.identity(), "is not the file that local rank 0 made");
}

}  // namespace
}  // namespace lockstep
