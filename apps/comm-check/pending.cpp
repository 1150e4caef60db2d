// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <complex>
#include <cstring>
#include <sstream>
#include <type_traits>

#include "apps/comm-check/member.hpp"
#include "comm/collective_parts.hpp"

namespace lockstep::comm_check {
namespace {

constexpr std::int64_t band_bytes = 64;
constexpr std::byte band_value{0xa5};

bool is_band(const std::byte* begin) {
  return std::all_of(begin, begin + band_bytes, [](std::byte b) { return b == band_value; });
}

template <typename F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    case DType::int32: return f(std::int32_t{});
    case DType::int64: return f(std::int64_t{});
    case DType::uint8: return f(std::uint8_t{});
    case DType::int8: return f(std::int8_t{});
    case DType::int16: return f(std::int16_t{});
    case DType::uint16: return f(std::uint16_t{});
    case DType::boolean: return f(bool{});
    case DType::complex64: return f(std::complex<float>{});
    case DType::complex128: return f(std::complex<double>{});
    default: throw std::logic_error("no scenario has " + std::string(name(dtype)));
  }
}

template <typename T>
T element_of(int value) {
  if constexpr (requires { typename T::value_type; }) {
    using Part = typename T::value_type;
    return {static_cast<Part>(value), static_cast<Part>(2 * value)};
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
T divided(T sum, int ranks) {
  if constexpr (requires { typename T::value_type; }) {
    return sum / static_cast<typename T::value_type>(ranks);
  } else if constexpr (std::is_same_v<T, bool>) {
    return sum;
  } else {
    return static_cast<T>(sum / static_cast<T>(ranks));
  }
}

template <typename T>
std::string text_of(T value) {
  std::ostringstream text;
  if constexpr (sizeof value == 1) {
    text << int{value};  // no character
  } else {
    text << value;
  }
  return text.str();
}

/// Returns the lengths of the parts. In an all_to_all_v they are what a rank sends to each rank, or receives from each.
std::vector<Count> parts_of(const Request& r, int size, int me, bool received) {
  std::vector<Count> parts;
  for (int rank = 0; rank < size; ++rank) {
    const bool exchanges = r.kind == CollectiveKind::all_to_all_v;
    if (!exchanges) parts.push_back({part_length(r, rank, rank)});
    if (exchanges) parts.push_back({received ? part_length(r, rank, me) : part_length(r, me, rank)});
  }
  return parts;
}

Count all_parts(const Request& r, int size, int me, bool received) {
  Count all;
  for (const Count part : parts_of(r, size, me, received)) all += part;
  return all;
}

/// Returns the distance between two sums of leaves. The elements between them do not belong to the communicator.
std::int64_t stride_of(const Request& r) { return r.count + 3; }

Count in_count(const Request& r, const LeafShares& leaves, int size, int me) {
  if (leaves.total() > 0) return {count_tree_nodes(leaves.total(), leaves.of(me, size)) * stride_of(r)};
  return has_parts_in(r.kind) ? all_parts(r, size, me, false) : Count{part_length(r, me, me)};
}
Count out_count(const Request& r, int size, int me) {
  return has_parts_out(r.kind) ? all_parts(r, size, me, true) : Count{part_length(r, me, me)};
}

bool is_allocated(const Request& r, int me) { return (r.allocated >> (static_cast<unsigned>(me) % 32U) & 1U) != 0; }

}  // namespace

GuardedBuffer::GuardedBuffer(Communicator& communicator, Count count, DType dtype, bool allocated) {
  const std::int64_t bytes = count.value * size_of(dtype);
  const Bytes all{bytes + 2 * band_bytes};
  allocation_ = allocated ? communicator.allocate(all) : allocate_host(all);
  begin_ = static_cast<std::byte*>(allocation_.data());
  end_ = begin_ + band_bytes + bytes;
  std::fill_n(begin_, band_bytes, band_value);
  std::fill_n(end_, band_bytes, band_value);
  whole_ = {begin_ + band_bytes, count, dtype, allocation_.kind()};
}

bool GuardedBuffer::is_intact() const { return is_band(begin_) && is_band(end_); }

Pending::Pending(Communicator& communicator, const Request& request)
    : request_(request),
      leaves_(communicator.capabilities().no_leaves.empty() ? request.leaves : LeafShares()),
      size_(communicator.size()),
      me_(communicator.rank().value),
      in_(communicator, in_count(request, leaves_, size_, me_), request.dtype, is_allocated(request, me_)),
      out_(communicator, out_count(request, size_, me_), request.dtype, is_allocated(request, me_)) {
  fill();
}

void Pending::start(Communicator& communicator) {
  if (request_.preparation) {
    prepared_.emplace(communicator.prepare(collective()));
    prepared_->start();
  } else {
    work_.emplace(communicator.start(collective()));
  }
}

/// Returns this rank's part of a buffer that has room for all parts.
Buffer Pending::own_part(const Buffer& all) const {
  const auto parts = parts_of(request_, size_, me_, false);
  return slice(all, offset_of_part(parts, {me_}), parts[static_cast<std::size_t>(me_)]);
}

Buffer Pending::source() const {
  const bool is_root = me_ == request_.root;
  if (request_.kind == CollectiveKind::scatter && !is_root) return {};
  const bool gathers = request_.kind == CollectiveKind::all_gather || request_.kind == CollectiveKind::all_gather_v ||
                       (request_.kind == CollectiveKind::gather && is_root);
  if (leaves_.total() > 0) return slice(in_.whole(), {0}, {request_.count});
  return gathers && request_.in_place ? own_part(out_.whole()) : in_.whole();
}

Buffer Pending::result() const {
  const CollectiveKind kind = request_.kind;
  const bool is_root = me_ == request_.root;
  if (is_message(kind)) return me_ == request_.to ? out_.whole() : Buffer{};
  if ((kind == CollectiveKind::reduce || kind == CollectiveKind::gather) && !is_root) return {};
  if (kind == CollectiveKind::broadcast) return in_.whole();
  if (!request_.in_place) return out_.whole();
  if (kind == CollectiveKind::all_reduce) return slice(in_.whole(), {0}, {request_.count});
  if (kind == CollectiveKind::reduce || is_scan(kind)) return in_.whole();
  const bool is_own_part = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce_scatter_v ||
                           (kind == CollectiveKind::scatter && is_root);
  return is_own_part ? own_part(in_.whole()) : out_.whole();
}

void Pending::fill() const {
  with_type(request_.dtype, [this](auto zero) {
    using T = decltype(zero);
    const Buffer in = source();
    auto* values = static_cast<T*>(in.data);
    if (leaves_.total() == 0)
      for (std::int64_t i = 0; i < in.count.value; ++i) values[i] = element_of<T>(contributed(request_, me_, i));
    for (const LeafNode& node : nodes()) {
      for (std::int64_t i = 0; i < request_.count; ++i)
        values[i] = element_of<T>(sum_of(request_, node.first, node.leaves, i));
      values += stride_of(request_);
    }
  });
}

/// Returns the tree nodes whose sums this rank contributes; empty without leaves.
std::vector<LeafNode> Pending::nodes() const { return tree_nodes(leaves_.total(), leaves_.of(me_, size_)); }

/// Returns the operation. Its counts are valid as long as this object.
Collective Pending::collective() {
  Collective c{.kind = request_.kind, .op = request_.op, .root = {request_.root}};
  if (request_.kind == CollectiveKind::barrier) return c;
  c.in = source();
  c.out = result();
  c.leaves = {leaves_, {stride_of(request_)}};
  if (has_part_counts(c.kind)) c.parts = parts_ = parts_of(request_, size_, me_, false);
  if (c.kind == CollectiveKind::all_to_all_v) c.received = received_ = parts_of(request_, size_, me_, true);
  if (!is_message(c.kind)) return c;
  if (me_ == request_.root) return {.kind = CollectiveKind::send, .in = c.in, .root = {request_.to}};
  return {.kind = CollectiveKind::recv, .out = c.out, .root = {request_.root}};
}

void Pending::start_again(const Request& request) {
  request_ = request;
  fill();
  prepared_->start();
}

void Pending::wait_and_check() {
  if (work_) work_->wait();
  if (prepared_) prepared_->wait();
  if (request_.kind != CollectiveKind::barrier) check_values();
  check_other_sums();
  if (!in_.is_intact() || !out_.is_intact()) {
    throw WrongResult("memory beside the buffers of " + std::string(name(request_.kind)) + " of " +
                      std::to_string(request_.count) + " elements has been written, rank " + std::to_string(me_) +
                      " of communicator " + std::to_string(request_.group));
  }
}

/// Compares elements with right(i), as the request's data type. @throws WrongResult
template <typename Right>
void Pending::check_elements(const Buffer& result, const std::string& what, const Right& right) const {
  with_type(request_.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* values = static_cast<const T*>(result.data);
    for (std::int64_t i = 0; i < result.count.value; ++i) {
      const T wanted = right(i, zero);
      if (values[i] == wanted) continue;
      throw WrongResult(what + ": element " + std::to_string(i) + " of rank " + std::to_string(me_) +
                        " of communicator " + std::to_string(request_.group) + " is " + text_of(values[i]) + ", not " +
                        text_of(wanted));
    }
  });
}

void Pending::check_values() const {
  const std::string what = std::string(name(request_.kind)) + " of " + std::to_string(request_.count) + " " +
                           std::string(name(request_.dtype));
  const bool is_average = is_reduction(request_.kind) && request_.op == ReduceOp::average;
  check_elements(result(), what, [&]<typename T>(std::int64_t i, T) {
    const auto whole = element_of<T>(leaves_.total() > 0 ? sum_of(request_, 0, leaves_.total(), i)
                                                         : expected(request_, size_, me_, i));
    return is_average ? divided(whole, size_) : whole;
  });
}

void Pending::check_other_sums() const {
  const std::vector<LeafNode> nodes = this->nodes();
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    const Count begin{static_cast<std::int64_t>(node) * stride_of(request_)};
    const std::string what =
        "all_reduce of " + std::to_string(leaves_.total()) + " leaves has written sum " + std::to_string(node);
    check_elements(slice(in_.whole(), begin, {request_.count}), what, [&]<typename T>(std::int64_t i, T) {
      return element_of<T>(sum_of(request_, nodes[node].first, nodes[node].leaves, i));
    });
  }
}

}  // namespace lockstep::comm_check
