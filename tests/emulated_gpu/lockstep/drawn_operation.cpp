// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/lockstep/drawn_operation.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "kernels/reduce.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using Kind = CollectiveKind;
using Operand = std::vector<unsigned char>;

constexpr Kind drawn_kinds[] = {Kind::all_reduce, Kind::all_reduce,   Kind::broadcast,        Kind::all_gather,
                                Kind::reduce,     Kind::all_to_all,   Kind::barrier,          Kind::reduce_scatter,
                                Kind::gather,     Kind::scatter,      Kind::all_gather_v,     Kind::reduce_scatter_v,
                                Kind::send,       Kind::all_to_all_v, Kind::reduce_scatter_v, Kind::send};
constexpr DType drawn_dtypes[] = {DType::int32, DType::int64, DType::uint8};
constexpr ReduceOp drawn_ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

std::int64_t below(std::mt19937_64& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
}

bool has_parts(Kind kind) {
  return has_part_counts(kind) || kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::gather ||
         kind == Kind::scatter || kind == Kind::all_to_all;
}

Operand cut(const Operand& whole, std::int64_t begin, std::int64_t bytes) {
  return {whole.begin() + begin, whole.begin() + begin + bytes};
}

}  // namespace

int DrawnOperation::place_of(int rank) const {
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

bool DrawnOperation::takes_part(int member) const { return kind != Kind::send || member == root || member == to; }

std::int64_t DrawnOperation::part(int from, int receiver) const {
  if (kind == Kind::all_to_all_v)
    return parts[static_cast<std::size_t>(from)][static_cast<std::size_t>(receiver)].value;
  return has_part_counts(kind) ? parts[0][static_cast<std::size_t>(from)].value : count;
}

std::int64_t DrawnOperation::elements_before(int member) const {
  std::int64_t sum = 0;
  for (int other = 0; other < member; ++other) sum += part(other, other);
  return sum;
}

std::int64_t DrawnOperation::elements_of_all() const { return elements_before(size()); }

Region DrawnOperation::region(int slot, std::int64_t first, std::int64_t elements) const {
  if (elements == 0) return {};
  const std::int64_t width = size_of(dtype);
  return {slot, (offset + first) * width, elements * width};
}

Region DrawnOperation::input_of(int member) const {
  const bool in_place = in == out;
  std::int64_t sent = 0;
  switch (kind) {
    case Kind::barrier: return {};
    case Kind::send: return member == root ? region(in, 0, count) : Region{};
    case Kind::all_gather:
    case Kind::all_gather_v: return region(in, in_place ? elements_before(member) : 0, part(member, member));
    case Kind::gather: return region(in, in_place && member == root ? elements_before(member) : 0, count);
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_v:
    case Kind::all_to_all: return region(in, 0, elements_of_all());
    case Kind::scatter: return member == root ? region(in, 0, elements_of_all()) : Region{};
    case Kind::all_to_all_v:
      for (int other = 0; other < size(); ++other) sent += part(member, other);
      return region(in, 0, sent);
    default: return region(in, 0, count);
  }
}

Region DrawnOperation::output_of(int member) const {
  const bool in_place = in == out;
  std::int64_t received = 0;
  switch (kind) {
    case Kind::barrier: return {};
    case Kind::send: return member == to ? region(out, 0, count) : Region{};
    case Kind::broadcast: return region(in, 0, count);
    case Kind::reduce: return member == root ? region(out, 0, count) : Region{};
    case Kind::gather: return member == root ? region(out, 0, elements_of_all()) : Region{};
    case Kind::all_gather:
    case Kind::all_gather_v:
    case Kind::all_to_all: return region(out, 0, elements_of_all());
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_v: return region(out, in_place ? elements_before(member) : 0, part(member, member));
    case Kind::scatter: return region(out, in_place && member == root ? elements_before(member) : 0, count);
    case Kind::all_to_all_v:
      for (int other = 0; other < size(); ++other) received += part(other, member);
      return region(out, 0, received);
    default: return region(out, 0, count);
  }
}

Collective DrawnOperation::collective(int member, const std::vector<void*>& slots, std::vector<Count>& received) const {
  const auto buffer = [&](const Region& r) {
    if (r.slot < 0) return Buffer{nullptr, {0}, dtype, MemoryKind::device};
    return Buffer{static_cast<std::byte*>(slots[static_cast<std::size_t>(r.slot)]) + r.begin,
                  {r.bytes / size_of(dtype)},
                  dtype,
                  MemoryKind::device};
  };
  Collective c{.kind = kind, .op = op, .root = {root}};
  if (kind == Kind::barrier) return c;
  c.in = buffer(input_of(member));
  c.out = buffer(output_of(member));
  if (kind == Kind::send && member == root) c.root = {to};
  if (kind == Kind::send && member == to) c.kind = Kind::recv;
  if (has_part_counts(kind)) c.parts = parts[kind == Kind::all_to_all_v ? static_cast<std::size_t>(member) : 0];
  if (kind != Kind::all_to_all_v) return c;
  for (int other = 0; other < size(); ++other) received.push_back({part(other, member)});
  c.received = received;
  return c;
}

void DrawnOperation::apply(std::vector<Contents>& of_rank) const {
  if (kind == Kind::barrier) return;
  const std::int64_t width = size_of(dtype);
  const auto memory = [&](int member, int slot) -> Operand& {
    return of_rank[static_cast<std::size_t>(members[static_cast<std::size_t>(member)])][static_cast<std::size_t>(slot)];
  };
  std::vector<Operand> inputs;
  for (int member = 0; member < size(); ++member) {
    const Region r = input_of(member);
    inputs.push_back(r.slot < 0 ? Operand() : cut(memory(member, r.slot), r.begin, r.bytes));
  }
  Operand joined;  // the sum, or all inputs concatenated
  if (is_reduction(kind)) {
    joined = inputs[0];
    for (std::size_t k = 1; k < inputs.size(); ++k)
      kernels::reduce(joined.data(), joined.data(), inputs[k].data(),
                      {static_cast<std::int64_t>(joined.size()) / width}, dtype, op);
  } else {
    for (const Operand& input : inputs) joined.insert(joined.end(), input.begin(), input.end());
  }
  for (int member = 0; member < size(); ++member) {
    const Region r = output_of(member);
    if (r.slot < 0) continue;
    Operand result = joined;
    if (kind == Kind::broadcast || kind == Kind::send) result = inputs[static_cast<std::size_t>(root)];
    if (kind == Kind::scatter)
      result = cut(inputs[static_cast<std::size_t>(root)], elements_before(member) * width, r.bytes);
    if (kind == Kind::reduce_scatter || kind == Kind::reduce_scatter_v)
      result = cut(joined, elements_before(member) * width, r.bytes);
    if (kind == Kind::all_to_all || kind == Kind::all_to_all_v) {
      result.clear();
      for (int from = 0; from < size(); ++from) {
        std::int64_t begin = 0;
        for (int other = 0; other < member; ++other) begin += part(from, other);
        const Operand piece = cut(inputs[static_cast<std::size_t>(from)], begin * width, part(from, member) * width);
        result.insert(result.end(), piece.begin(), piece.end());
      }
    }
    std::copy(result.begin(), result.end(), memory(member, r.slot).begin() + r.begin);
  }
}

std::string DrawnOperation::describe() const {
  std::string text = std::string(name(kind)) + " of " + std::to_string(count) + " " + std::string(name(dtype)) + ", " +
                     std::string(name(op)) + ", root " + std::to_string(root) + ", slot " + std::to_string(in) +
                     " to slot " + std::to_string(out) + " from element " + std::to_string(offset) + " on, ranks";
  for (const int member : members) text += " " + std::to_string(member);
  return text;
}

DrawnOperation draw_operation(std::mt19937_64& random, const std::vector<int>& members, int in, int out) {
  DrawnOperation d;
  d.members = members;
  d.kind = drawn_kinds[below(random, std::size(drawn_kinds))];
  d.dtype = drawn_dtypes[below(random, std::size(drawn_dtypes))];
  d.op = drawn_ops[below(random, std::size(drawn_ops))];
  const int size = d.size();
  d.root = static_cast<int>(below(random, size));
  d.to = size == 1 ? 0 : (d.root + 1 + static_cast<int>(below(random, size - 1))) % size;
  if (d.kind == Kind::send && size == 1) d.kind = Kind::all_reduce;
  const bool exchanges = d.kind == Kind::all_to_all || d.kind == Kind::all_to_all_v;
  const bool in_place = (random() % 2 == 0 && !exchanges && d.kind != Kind::send) || d.kind == Kind::broadcast;
  d.in = in;
  d.out = in_place ? in : out;
  d.offset = below(random, 4);
  const std::int64_t most = (slot_bytes / size_of(d.dtype) - 4) / (has_parts(d.kind) ? size : 1);
  d.count = random() % 3 == 0 ? below(random, 9) : below(random, most + 1);
  d.count = std::min(d.count, most);
  if (!has_part_counts(d.kind)) return d;
  d.parts.resize(d.kind == Kind::all_to_all_v ? static_cast<std::size_t>(size) : 1);
  for (auto& row : d.parts)
    for (int k = 0; k < size; ++k) row.push_back({random() % 4 == 0 ? 0 : below(random, d.count + 1)});
  return d;
}

}  // namespace lockstep::on_emulated_gpus
