// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/formulas/resized_axis.hpp"
#include "ops/reference/operators.hpp"
#include "ops/shapes.hpp"

namespace lockstep::ops::reference {
namespace {

/// Calls `source_of(i)` for each element of a result along one axis.
template <typename SourceOf>
auto sources(std::int64_t out, const SourceOf& source_of) {
  std::vector<decltype(source_of(out))> all;
  for (std::int64_t i = 0; i < out; ++i) all.push_back(source_of(i));
  return all;
}

std::vector<std::int64_t> nearest_of(std::int64_t in, std::int64_t out) {
  return sources(out, [axis = ResizedAxis{in, out, Interpolation::nearest, false}](auto i) { return axis.nearest(i); });
}

template <typename T>
std::vector<Between<T>> between_of(std::int64_t in, std::int64_t out, bool align_corners) {
  const ResizedAxis axis{in, out, Interpolation::bilinear, align_corners};
  return sources(out, [&](std::int64_t i) { return axis.source<T>(i); });
}

template <typename T>
class NearestKernel final : public Kernel {
 public:
  NearestKernel(const Format& in, const Resize& resize)
      : Kernel(reading_gradients_only(in, output_of(resize, in))),
        in_(in.shape),
        out_(traits().output.shape),
        rows_(nearest_of(in_.height, out_.height)),
        columns_(nearest_of(in_.width, out_.width)) {}

  void forward(const Arguments& call) override {
    const T* in = static_cast<const T*>(call.inputs[0]);
    T* out = static_cast<T*>(call.output);
    for (std::int64_t plane = 0; plane < in_.batch * in_.channels; ++plane) {
      for (std::size_t y = 0; y < rows_.size(); ++y, out += out_.width) {
        if (y > 0 && rows_[y] == rows_[y - 1]) {
          std::memcpy(out, out - out_.width, columns_.size() * sizeof(T));
        } else {
          const T* row = in + (plane * in_.height + rows_[y]) * in_.width;
          for (std::size_t x = 0; x < columns_.size(); ++x) out[x] = row[columns_[x]];
        }
      }
    }
  }

  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* dx = static_cast<T*>(call.input_gradients[0]);
    std::fill_n(dx, in_.count(), T{0});
    for (std::int64_t plane = 0; plane < in_.batch * in_.channels; ++plane) {
      for (std::size_t y = 0; y < rows_.size(); ++y, dy += out_.width) {
        T* row = dx + (plane * in_.height + rows_[y]) * in_.width;
        for (std::size_t x = 0; x < columns_.size(); ++x) row[columns_[x]] += dy[x];
      }
    }
  }

 private:
  Shape in_;
  Shape out_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> columns_;
};

/// Interpolates between rows first, which is a loop without gathers, then between columns.
template <typename T>
class BilinearKernel final : public Kernel {
 public:
  BilinearKernel(const Format& in, const Resize& resize)
      : Kernel(reading_gradients_only(in, output_of(resize, in))),
        in_(in.shape),
        out_(traits().output.shape),
        rows_(between_of<T>(in_.height, out_.height, resize.align_corners)),
        columns_(between_of<T>(in_.width, out_.width, resize.align_corners)),
        row_(static_cast<std::size_t>(in_.width)),
        upper_(static_cast<std::size_t>(out_.width)),
        lower_(upper_.size()) {}

  void forward(const Arguments& call) override {
    const T* plane = static_cast<const T*>(call.inputs[0]);
    T* out = static_cast<T*>(call.output);
    for (std::int64_t i = 0; i < in_.batch * in_.channels; ++i, plane += in_.height * in_.width) {
      for (const Between<T>& y : rows_) {
        const T* first = plane + y.first * in_.width;
        const T* second = plane + y.second * in_.width;
        for (std::size_t x = 0; x < row_.size(); ++x) row_[x] = (T{1} - y.share) * first[x] + y.share * second[x];
        for (const Between<T>& x : columns_) *out++ = (T{1} - x.share) * between(x.first) + x.share * between(x.second);
      }
    }
  }

  /// Adds rows of the output to those of the input first, which is a loop without gathers, and columns of these sums
  /// afterwards.
  void backward(const Arguments& call) override {
    if (call.input_gradients[0] == nullptr) return;
    const T* dy = static_cast<const T*>(call.output_gradient);
    T* plane = static_cast<T*>(call.input_gradients[0]);
    std::fill_n(plane, in_.count(), T{0});
    for (std::int64_t i = 0; i < in_.batch * in_.channels; ++i, plane += in_.height * in_.width) {
      std::int64_t row = 0;  // whose sum is in upper_; that of the next one is in lower_
      const auto finish_row = [&] {
        add_columns(upper_, plane + row++ * in_.width);
        std::swap(upper_, lower_);
        std::fill(lower_.begin(), lower_.end(), T{0});
      };
      for (const Between<T>& y : rows_) {
        while (row < y.first) finish_row();
        add_row(T{1} - y.share, dy, upper_);
        if (y.share != T{0}) add_row(y.share, dy, y.second == y.first ? upper_ : lower_);
        dy += out_.width;
      }
      while (row < in_.height) finish_row();
    }
  }

 private:
  T& between(std::int64_t column) { return row_[static_cast<std::size_t>(column)]; }

  static void add_row(T share, const T* row, std::vector<T>& sum) {
    for (std::size_t x = 0; x < sum.size(); ++x) sum[x] += share * row[x];
  }
  void add_columns(const std::vector<T>& sum, T* row) const {
    for (std::size_t x = 0; x < columns_.size(); ++x) {
      row[columns_[x].first] += (T{1} - columns_[x].share) * sum[x];
      row[columns_[x].second] += columns_[x].share * sum[x];
    }
  }

  Shape in_;
  Shape out_;
  std::vector<Between<T>> rows_;
  std::vector<Between<T>> columns_;
  std::vector<T> row_;    ///< a row of the input's width between two input rows
  std::vector<T> upper_;  ///< rows of the output's width
  std::vector<T> lower_;
};

}  // namespace

KernelPtr make(const Resize& resize, Formats in) {
  return resize.mode == Interpolation::nearest ? make_for<NearestKernel>(in, resize)
                                               : make_for<BilinearKernel>(in, resize);
}

}  // namespace lockstep::ops::reference
