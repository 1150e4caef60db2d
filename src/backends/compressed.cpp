// SPDX-License-Identifier: Apache-2.0
#include "lockstep/backends/compressed.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/borders.hpp"
#include "base/nearest.hpp"
#include "comm/collective_parts.hpp"
#include "comm/host_communicator.hpp"
#include "kernels/convert.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::backends {
namespace {

constexpr std::array<std::string_view, 3> format_names = {"none", "bf16", "fp16"};

DType dtype_of(WireFormat format) { return format == WireFormat::bfloat16 ? DType::bfloat16 : DType::float16; }

template <typename Half>
std::span<Half> halves(const Buffer& buffer) {
  return {static_cast<Half*>(buffer.data), static_cast<std::size_t>(buffer.count.value)};
}

void narrow(const ConstBuffer& from, const Buffer& to) {
  const std::span floats(static_cast<const float*>(from.data), static_cast<std::size_t>(from.count.value));
  if (to.dtype == DType::bfloat16) return kernels::convert(floats, halves<bfloat16>(to));
  kernels::convert(floats, halves<float16>(to));
}

void widen(const Buffer& from, const Buffer& to) {
  const std::span floats(static_cast<float*>(to.data), static_cast<std::size_t>(to.count.value));
  if (from.dtype == DType::bfloat16) {
    return kernels::convert(std::span<const bfloat16>(halves<bfloat16>(from)), floats);
  }
  kernels::convert(std::span<const float16>(halves<float16>(from)), floats);
}

/// An operation of the inner communicator, with the conversions before and after it.
class CompressedOperation : public HostOperation {
 public:
  CompressedOperation(std::shared_ptr<Communicator> inner, WireFormat format)
      : inner_(std::move(inner)), wire_dtype_(dtype_of(format)) {}

  /// @pre begin() is called while the collective's label and counts are valid
  void prepare(const Collective& collective) { collective_ = collective; }

  void begin(const Slot& /*slot*/) override {
    mark_begun();
    mark_advance();
    compressed_ = is_reduction(collective_.kind) && collective_.in.dtype == DType::float32;
    if (compressed_) narrow(collective_.in, wire_memory(collective_.in.count));
    work_.reset();
    work_.emplace(submit_to_inner());
  }

  bool advance() override {
    if (state_of(*work_) == Operation::State::pending) return false;
    work_->wait();
    if (compressed_) widen(result_, collective_.out);
    mark_advance();
    complete();
    return true;
  }

 private:
  const Buffer& wire_memory(Count count) {
    const Bytes bytes = bytes_of(count, wire_dtype_);
    if (memory_.bytes() < bytes) memory_ = inner_->allocate(bytes);
    wire_ = {memory_.data(), count, wire_dtype_, memory_.kind()};
    return wire_;
  }

  Work submit_to_inner() {
    Collective c = collective_;
    if (!compressed_) return inner_->start(c);
    const bool is_scattered = c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::reduce_scatter_v;
    Count begin;
    if (c.kind == CollectiveKind::reduce_scatter) begin = inner_->rank().value * c.out.count;
    if (c.kind == CollectiveKind::reduce_scatter_v) begin = offset_of_part(c.parts, inner_->rank());
    result_ = slice(wire_, begin, c.out.count);  // in a reduce, empty on all ranks but the root
    c.in = wire_;
    c.out = is_scattered ? result_ : wire_;
    return inner_->start(c);
  }

  std::shared_ptr<Communicator> inner_;
  DType wire_dtype_;
  Collective collective_;
  bool compressed_ = false;
  Allocation memory_;
  Buffer wire_;    // the input in the wire format, reduced in place
  Buffer result_;  // this rank's part of wire_
  // The inner communicator's work is kept until the next operation: as long as it is held, the inner communicator
  // reuses its operation for no other work, and afterwards it returns the same one again, which has memory of the right
  // size.
  std::optional<Work> work_;
};

/// A communicator whose inner communicator orders the operations, watches their deadline and notifies the observer.
/// Here each operation begins at once.
class Compressed : public HostCommunicator {
 public:
  Compressed(std::unique_ptr<Communicator> inner, WireFormat format, Progress& progress)
      : HostCommunicator(inner->rank(), inner->size(), progress,
                         {.capabilities = {.backend = "compressed",
                                           .no_average = "the sums are rounded on the wire before they could be "
                                                         "divided; divide them afterwards",
                                           .no_leaves = "how often a sum is rounded on the wire depends on the number "
                                                        "of ranks"},
                          .operations_in_flight = std::numeric_limits<int>::max(),
                          .deadline = std::chrono::hours(24 * 365)}),
        inner_(std::move(inner)),
        format_(format) {}

  ~Compressed() override { (void)depart(); }

  void abort(std::string_view why) noexcept override { inner_->abort(why); }
  Allocation allocate(Bytes bytes) override { return inner_->allocate(bytes); }

 protected:
  std::shared_ptr<HostOperation> make_operation(CollectiveKind /*kind*/) override {
    return std::make_shared<CompressedOperation>(inner_, format_);
  }
  void prepare(HostOperation& operation, const Collective& collective) override {
    static_cast<CompressedOperation&>(operation).prepare(collective);
  }
  void raise(const std::exception_ptr& error) noexcept override {
    try {
      std::rethrow_exception(error);
    } catch (const Error& own) {
      if (!own.is_consequence()) inner_->abort(own.message());
    } catch (const std::exception& own) {
      inner_->abort(own.what());
    }
  }
  void release() override { inner_->close(); }

 private:
  std::shared_ptr<Communicator> inner_;
  WireFormat format_;
};

}  // namespace

std::string_view name(WireFormat format) { return format == WireFormat::bfloat16 ? format_names[1] : format_names[2]; }

std::span<const std::string_view> compression_names() { return format_names; }

std::optional<WireFormat> parse_compression(std::string_view name) {
  const auto* const found = std::find(format_names.begin(), format_names.end(), name);
  if (found == format_names.end()) {
    throw Error(ErrorCode::invalid_argument, unknown("compression", name, format_names));
  }
  if (found == format_names.begin()) return std::nullopt;
  return found == format_names.begin() + 1 ? WireFormat::bfloat16 : WireFormat::float16;
}

std::unique_ptr<Communicator> make_compressed(std::unique_ptr<Communicator> inner, WireFormat format,
                                              Progress& progress) {
  if (!inner->capabilities().host_memory) {
    throw Error(ErrorCode::unsupported, "compression converts in host memory, which " +
                                            std::string(inner->capabilities().backend) + " does not take");
  }
  if (format != WireFormat::bfloat16 && format != WireFormat::float16)
    throw Error(ErrorCode::invalid_argument, no_enumerator("WireFormat", format));
  auto compressed = std::make_unique<Compressed>(std::move(inner), format, progress);
  compressed->enlist();
  return std::make_unique<Communicator>(std::move(compressed));
}

}  // namespace lockstep::backends
