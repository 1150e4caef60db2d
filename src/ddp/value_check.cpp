// SPDX-License-Identifier: Apache-2.0
#include "ddp/value_check.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/hash.hpp"
#include "ddp/rank_zero.hpp"

namespace lockstep::ddp {
namespace {

constexpr std::size_t pieces = std::tuple_size_v<ValueCheck::Digest> / 2;

/// Returns the hash in pieces of 16 bits, and their squares. Sums of these are exact in float64, and the piece x is
/// equal on all p ranks exactly if p · Σ x² = (Σ x)².
ValueCheck::Digest digest_of(std::uint64_t hash) {
  ValueCheck::Digest digest{};
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto bits = static_cast<double>(hash >> (16 * i) & 0xffff);
    digest[i] = bits;
    digest[pieces + i] = bits * bits;
  }
  return digest;
}

/// Returns a hash of at most eight elements of the tensor, from the first to the last. Ranks that apply other gradients
/// than the reduced ones differ in nearly all elements.
/// @cost  a cache miss for each element; they overlap
std::uint64_t hash_of_some(const Buffer& value) {
  constexpr std::int64_t most = 8;
  const std::int64_t elements = std::min(most, value.count.value);
  const std::int64_t size = size_of(value.dtype);
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int64_t at = elements == 1 ? 0 : i * (value.count.value - 1) / (elements - 1);
    std::uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(value.data) + at * size, static_cast<std::size_t>(size));
    hash = combine(hash, bits);
  }
  return hash;
}

/// Returns whether all ranks have the same hash. The products may wrap, because their difference is below 2⁶⁴ for fewer
/// than 2¹⁷ ranks.
bool are_equal(std::span<const double> sums, int ranks) {
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto sum = static_cast<std::uint64_t>(sums[i]);
    const auto squares = static_cast<std::uint64_t>(sums[pieces + i]);
    if (static_cast<std::uint64_t>(ranks) * squares != sum * sum) return false;
  }
  return true;
}

/// Returns the ranks whose hash differs from the most frequent one; in a tie the first of these hashes, by rank,
/// counts.
std::vector<int> odd_ranks(std::span<const std::uint64_t> hash_of_rank) {
  const auto supporters = [&](std::uint64_t hash) {
    return std::count(hash_of_rank.begin(), hash_of_rank.end(), hash);
  };
  std::uint64_t usual = hash_of_rank.front();
  for (const std::uint64_t hash : hash_of_rank)
    if (supporters(hash) > supporters(usual)) usual = hash;
  std::vector<int> odd;
  for (std::size_t rank = 0; rank < hash_of_rank.size(); ++rank)
    if (hash_of_rank[rank] != usual) odd.push_back(static_cast<int>(rank));
  return odd;
}

void broadcast(Communicator& communicator, const std::vector<Buffer>& values) {
  std::vector<Work> under_way;
  under_way.reserve(values.size());
  for (const Buffer& buffer : values)
    under_way.push_back(communicator.broadcast(buffer, {0}, Queue::host(), "initial parameters"));
  for (Work& work : under_way) work.wait();
}

void compare(ProcessGroup& group, const std::vector<Buffer>& values) {
  Fnv1a hash;
  for (const Buffer& buffer : values) hash.add(static_cast<std::int64_t>(fingerprint(buffer)));
  std::vector<int> others = ranks_unlike_zero(group.control(), hash.value(), "initial parameters");
  if (others.empty()) return;
  throw_on_every_rank(
      group, Error(ErrorCode::mismatch,
                   "the initial parameters of the ranks named here are not rank 0's: do all ranks make them from the "
                   "same seed, with the same build, on the same kind of processor? Broadcasting them makes them equal",
                   {.operation = "initial parameters", .peers = std::move(others)}));
}

}  // namespace

void ValueCheck::look(const Tensors& tensors, const std::function<void()>& progress) {
  ++steps_;
  digest_ = {};
  if (every_ == 0) return;
  // The second step is the first whose values result from an update, and most faults show there.
  const bool compares_all = steps_ == 2 || steps_ % every_ == 0;
  for (std::size_t i = 0; i < hashes_.size(); ++i) {
    const Buffer value = tensors.value(static_cast<int>(i));
    hashes_[i] = compares_all ? fingerprint(value) : hash_of_some(value);
    if (compares_all) progress();
  }
  digest_ =
      digest_of(hash_of({reinterpret_cast<const std::byte*>(hashes_.data()), hashes_.size() * sizeof hashes_[0]}));
}

void ValueCheck::require_equal(ProcessGroup& group, const Layout& layout, std::span<const double> sums,
                               std::int64_t step) {
  if (are_equal(sums, group.size())) return;
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::uint64_t> all(hashes_.size() * ranks);
  const auto count = static_cast<std::int64_t>(hashes_.size());
  group.control()
      .all_gather(Buffer{hashes_.data(), {count}, DType::int64},
                  Buffer{all.data(), {count * group.size()}, DType::int64}, Queue::host(), "hashes of values")
      .wait();
  std::vector<std::uint64_t> of_tensor(ranks);
  std::vector<int> odd;
  int first = -1;  // index of the tensor that differs
  while (odd.empty() && first + 1 < count) {
    ++first;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      of_tensor[rank] = all[rank * hashes_.size() + static_cast<std::size_t>(first)];
    odd = odd_ranks(of_tensor);
  }
  const std::string message =
      "the ranks' values have drifted apart: '" + layout.at(first).name + "' is the first tensor that differs, on " +
      ranks_text(odd) + " from " + (2 * odd.size() < ranks ? "the others" : "rank 0") + ". Before step " +
      std::to_string(step) +
      " a rank made another update than the others, or none. Look for a parameter or gradient that was replaced or "
      "moved, as a std::vector is that is resized or assigned (a gradient may move if ready() is told), for an update "
      "(step()) before finish(), for options of the optimizer that differ, and for values that only some ranks write "
      "or load from a checkpoint; with compare_every = 0 nothing is compared";
  throw_on_every_rank(group, Error(ErrorCode::mismatch, message,
                                   {.operation = "comparison of values", .step = step, .peers = std::move(odd)}));
}

void synchronize(ProcessGroup& group, const std::vector<Buffer>& values, InitialValues how) {
  how == InitialValues::broadcast ? broadcast(group.communicator(), values) : compare(group, values);
}

}  // namespace lockstep::ddp
