// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/base/buffer.hpp"

namespace lockstep::nn {

/// Overwrites `tensor` (host memory, float32 or float64) with values uniform in [middle − bound, middle + bound).
/// Value i depends on seed, name and i alone, so neither the order of tensors nor their number matters; float32 values
/// are the float64 ones rounded.
/// @param added  numbers that are added, one for each value; empty: none
/// @source Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014 (SplitMix64's output)
void fill_uniform(Buffer tensor, std::uint64_t seed, std::string_view name, double middle, double bound,
                  std::span<const double> added = {});

/// Overwrites `tensor` (host memory, float32 or float64) with one value.
void fill(Buffer tensor, double value);

/// Multiplies every element of `tensor` (host memory, float32 or float64) by `factor`; a factor of 0 gives zeros
/// whatever the elements were.
void scale(Buffer tensor, double factor);

}  // namespace lockstep::nn
