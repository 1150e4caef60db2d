// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/plan/medium.hpp"
#include "comm/host_operation.hpp"
#include "lockstep/base/buffer.hpp"

namespace lockstep::backends {

/// The state that the sends and recvs of a rank share: their medium, and the number of messages with each peer.
struct Messages {
  Messages(Medium& medium_in, int ranks, Bytes limit_in)
      : medium(&medium_in),
        limit(limit_in),
        sent(static_cast<std::size_t>(ranks)),
        received(static_cast<std::size_t>(ranks)),
        opened(static_cast<std::size_t>(ranks)) {}

  Medium* medium;
  Bytes limit;  ///< size limit of a piece
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> received;
  std::vector<std::uint64_t> opened;  ///< number of received messages whose envelopes have been opened, in their order
};

/// A send or a recv. Each begins with an envelope of constant size that contains the sender's signature and as much of
/// the data as fits. The rest follows in pieces, which the receiver accepts only after it has seen that both ranks make
/// the same call.
class MessageOperation final : public HostOperation {
 public:
  /// @param messages  outlives the operation's use
  explicit MessageOperation(Messages& messages) : messages_(&messages) {}

  void prepare(const Collective& collective);
  /// Takes its number. Messages begin in the order of their submission.
  void begin(const Slot& slot) override;
  bool advance() override;
  void add_awaited(std::vector<int>& ranks) const override { ranks.push_back(peer_.value); }

 private:
  struct Envelope {
    CallSignature signature;
    std::array<std::byte, 240> data;
  };
  void add_pending(ErrorContext& context) const override { context.peers = {peer_.value}; }
  [[nodiscard]] std::string_view algorithm() const override { return "message"; }
  [[nodiscard]] bool fits_in_envelope() const {
    return bytes_.value <= static_cast<std::int64_t>(sizeof(Envelope::data));
  }
  [[nodiscard]] bool has_come() const;
  void open();
  void post_pieces();
  [[nodiscard]] Medium::Ticket post(void* target, const void* source, Bytes bytes) const;

  Messages* messages_;
  bool sends_ = false;
  Rank peer_;
  const std::byte* source_ = nullptr;
  std::byte* target_ = nullptr;
  Bytes bytes_;
  MessageTag tag_;
  CallSignature signature_;
  Envelope envelope_{};
  bool is_sealed_ = false;               // whether this is a recv whose envelope has not been opened
  std::vector<Medium::Ticket> flights_;  // envelope and pieces in flight
};

}  // namespace lockstep::backends
