// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/descriptor_passing.hpp"
#include "platform/node_memory/mapping.hpp"
#include "platform/node_memory/node_memory_layout.hpp"
#include "vision/cache/cache_file.hpp"
#include "vision/cache/first_reason.hpp"

namespace lockstep::vision {
namespace {

class MemoryFile final : public CacheFile {
 public:
  MemoryFile(SharedFile file, Bytes bytes) : file_(std::move(file)), bytes_(bytes) {}

  [[nodiscard]] std::byte* data() const override { return file_.data(); }
  [[nodiscard]] Bytes size() const override { return bytes_; }
  void provide(std::int64_t offset, Bytes bytes) override { file_.provide(offset, bytes); }
  [[nodiscard]] bool is_lasting() const override { return false; }
  [[nodiscard]] const SharedFile& file() const { return file_; }

 private:
  SharedFile file_;
  Bytes bytes_;
};

/// What rank 0 tells the others about its file.
struct Invitation {
  pid_t process = 0;
  int descriptor = -1;
  FileIdentity file;
  Bytes bytes;
  std::uint64_t nonce = 0;
  std::string socket;

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << process << ' ' << descriptor << ' ' << file.device << ' ' << file.number << ' ' << bytes.value << ' '
        << nonce << ' ' << socket;
    return out.str();
  }
  /// Returns nothing for the text of a rank 0 that has no file.
  static std::optional<Invitation> read(const std::string& text) {
    Invitation read;
    std::istringstream in(text);
    in >> read.process >> read.descriptor >> read.file.device >> read.file.number >> read.bytes.value >> read.nonce >>
        read.socket;
    if (!in) return {};
    return read;
  }
};

std::shared_ptr<CacheFile> join(const Invitation& invitation) {
  Descriptor found = open_descriptor_of(invitation.process, invitation.descriptor, invitation.file);
  if (!found.open())  // as where /proc hides other processes
    found = receive_descriptor(invitation.socket, invitation.nonce, std::chrono::seconds(10));
  return std::make_shared<MemoryFile>(SharedFile(std::move(found), invitation.bytes, invitation.file),
                                      invitation.bytes);
}

}  // namespace

std::shared_ptr<CacheFile> make_memory_file(Bytes bytes, const NodeRanks& ranks, std::string& why_not) {
  std::shared_ptr<CacheFile> made;
  std::unique_ptr<DescriptorSender> sender;
  std::string invitation;
  std::string failure = reason_of_failure(ranks, [&] {
    if (ranks.rank != 0) return;
    const Bytes whole = whole_pages(bytes);
    const auto file = std::make_shared<MemoryFile>(SharedFile(whole), whole);
    std::random_device random;
    const std::uint64_t nonce = std::uint64_t{random()} << 32 | random();
    if (ranks.size > 1) {
      sender = std::make_unique<DescriptorSender>(file->file().descriptor(), nonce);
      invitation =
          Invitation{getpid(), file->file().descriptor(), file->file().identity(), whole, nonce, sender->name()}.text();
    }
    made = file;
  });
  if (ranks.size > 1) {
    const auto offer = Invitation::read(ranks.gather(invitation).front());
    if (ranks.rank != 0 && offer) failure = reason_of_failure(ranks, [&] { made = join(*offer); });
  }
  why_not = first_reason(ranks, failure);  // behind this, no rank needs the sender
  return made;
}

}  // namespace lockstep::vision
