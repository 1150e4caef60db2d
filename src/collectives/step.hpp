#pragma once

#include <array>
#include <optional>
#include <span>

#include "lockstep/collectives/plan.hpp"

/// What a step touches and whom it talks to, for those who treat all kinds of step alike.
namespace lockstep::collectives {

enum class Direction : std::uint8_t { send, receive };

/// A step's half of a message.
struct Message {
  int peer;
  Direction direction;
  std::int64_t count;
};

/// Nothing for a local step.
std::optional<Message> message(const Step& step);

/// The ranges a step reads and the one it writes.
class Accesses {
 public:
  explicit Accesses(const Step& step);
  [[nodiscard]] std::span<const Range> reads() const { return {reads_.data(), read_count_}; }
  [[nodiscard]] const std::optional<Range>& write() const { return write_; }

 private:
  void add_read(const Range& range) { reads_[read_count_++] = range; }

  std::array<Range, 2> reads_{};
  std::size_t read_count_ = 0;
  std::optional<Range> write_;
};

/// For std::visit over lambdas, one for each kind of step.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace lockstep::collectives
