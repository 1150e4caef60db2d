// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"

/// Tests functions outside [−1, 1], the range of the rows' inputs: far from zero, and where they have no derivative.
namespace lockstep::ops::test {
namespace {

constexpr std::size_t function_points = 10;
using Points = std::array<double, function_points>;
constexpr Points arguments{-8, -3, -1, -0.25, 0, 0.5, 3, 4, 6, 8};

struct Function {
  Pointwise::Kind kind;
  Points values;
  Points derivatives;
};

// These values are PyTorch 2.15's, in float64.
constexpr std::array known_functions{
    Function{Pointwise::Kind::relu6, {0, 0, 0, 0, 0, 0.5, 3, 4, 6, 6}, {0, 0, 0, 0, 0, 1, 1, 1, 0, 0}},
    Function{Pointwise::Kind::leaky_relu,
             {-0.08, -0.03, -0.01, -0.0025, 0, 0.5, 3, 4, 6, 8},
             {0.01, 0.01, 0.01, 0.01, 0.01, 1, 1, 1, 1, 1}},
    Function{Pointwise::Kind::silu,
             {-0.00268280104373182, -0.1422776195327, -0.268941421369995, -0.10945587477855, 0, 0.311229665600927,
              2.8577223804673, 3.92805516015163, 5.98516426106019, 7.99731719895627},
             {-0.00234655123558532, -0.0881041060151696, 0.0723294881285133, 0.376289978429802, 0.5, 0.739961187302652,
              1.08810410601517, 1.05266461489107, 1.01232643259152, 1.00234655123558}},
    Function{Pointwise::Kind::hard_swish,
             {0, 0, -0.333333333333333, -0.114583333333333, 0, 0.291666666666667, 3, 4, 6, 8},
             {0, 0, 0.166666666666667, 0.416666666666667, 0.5, 0.666666666666667, 1, 1, 1, 1}},
    Function{Pointwise::Kind::sigmoid,
             {0.000335350130466478, 0.0474258731775668, 0.268941421369995, 0.437823499114202, 0.5, 0.622459331201855,
              0.952574126822433, 0.982013790037908, 0.997527376843365, 0.999664649869534},
             {0.000335237670756474, 0.0451766597309121, 0.196611933241482, 0.246134082737598, 0.25, 0.235003712201594,
              0.045176659730912, 0.0176627062132911, 0.00246650929135993, 0.000335237670756368}},
    Function{Pointwise::Kind::tanh,
             {-0.999999774929676, -0.99505475368673, -0.761594155955765, -0.244918662403709, 0, 0.46211715726001,
              0.99505475368673, 0.999329299739067, 0.999987711650796, 0.999999774929676},
             {4.50140597654853e-07, 0.00986603716544017, 0.419974341614026, 0.940014848806378, 1, 0.786447732965927,
              0.00986603716544017, 0.00134095068302592, 2.4576547405303e-05, 4.50140597654853e-07}},
    Function{Pointwise::Kind::gelu,
             {0, -0.00404969409489031, -0.158655253931457, -0.100323418579269, 0, 0.345731230637007, 2.99595030590511,
              3.99987331503267, 5.99999999408047, 7.99999999999999},
             {0, -0.0119456472041839, -0.0833154705876863, 0.304626645116364, 0.5, 0.867495124656163, 1.01194564720418,
              1.00050364966123, 1.00000003546871, 1.00000000000004}},
    Function{Pointwise::Kind::affine,  // with the usual slope and offset
             {-0.08, -0.03, -0.01, -0.0025, 0, 0.005, 0.03, 0.04, 0.06, 0.08},
             {0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01}},
    Function{Pointwise::Kind::hard_sigmoid,  // with the usual slope and offset
             {0, 0, 0, 0, 0, 0.005, 0.03, 0.04, 0.06, 0.08},
             {0, 0, 0, 0, 0, 0.01, 0.01, 0.01, 0.01, 0.01}},
    Function{Pointwise::Kind::gelu_tanh,
             {0, -0.00363739208177299, -0.158808009391723, -0.100324649298315, 0, 0.345714009825144, 2.99636260791823,
              3.99992975405181, 5.9999999999156, 8},
             {0, -0.0115841666309696, -0.0829640838457825, 0.30464590484894, 0.5, 0.867369903534642, 1.01158416663097,
              1.00033512319712, 1.000000000771, 1}},
};

struct Computed {
  Points values{};
  Points derivatives{};
};

template <typename T>
Computed compute(Ops& ops, DType dtype, Pointwise::Kind kind, const Points& at = arguments) {
  const auto kernel = ops.make(Pointwise{.kind = kind}, std::vector{Format::plain({function_points, 1, 1, 1}, dtype)});
  std::array<T, function_points> x{};
  std::array<T, function_points> y{};
  std::array<T, function_points> dy{};
  std::array<T, function_points> dx{};
  dy.fill(1);
  for (std::size_t i = 0; i < function_points; ++i) x[i] = static_cast<T>(at[i]);
  const void* input = x.data();
  void* gradient = dx.data();
  kernel->run(Pass::forward, {.inputs = std::span(&input, 1), .output = y.data()});
  kernel->run(Pass::backward, {.inputs = std::span(&input, 1),
                               .output = y.data(),
                               .output_gradient = dy.data(),
                               .input_gradients = std::span(&gradient, 1)});
  Computed computed;
  for (std::size_t i = 0; i < function_points; ++i) {
    computed.values[i] = static_cast<double>(y[i]);
    computed.derivatives[i] = static_cast<double>(dx[i]);
  }
  return computed;
}

void expect_function(const Computed& actual, const Function& expected, double tolerance) {
  for (std::size_t i = 0; i < function_points; ++i) {
    EXPECT_NEAR(actual.values[i], expected.values[i], tolerance) << "of " << arguments[i];
    EXPECT_NEAR(actual.derivatives[i], expected.derivatives[i], tolerance) << "derivative at " << arguments[i];
  }
}

TEST(PointwiseFunctions, AreThoseOfPyTorchFarFromZeroAndAtKinks) {
  constexpr double of_float64 = 1e-13;
  constexpr double of_float32 = 2e-6;
  const auto reference = make_reference_ops();
  const auto onednn = make_onednn_ops(1);
  for (const Function& function : known_functions) {
    SCOPED_TRACE(text_of(Pointwise{.kind = function.kind}));
    expect_function(compute<double>(*reference, DType::float64, function.kind), function, of_float64);
    expect_function(compute<float>(*reference, DType::float32, function.kind), function, of_float32);
    expect_function(compute<float>(*onednn, DType::float32, function.kind), function, of_float32);
  }
}

TEST(PointwiseFunctions, StayFiniteFarOut) {
  Points far{};
  for (std::size_t i = 0; i < function_points; ++i) far[i] = (i % 2 == 0 ? 1.0 : -1.0) * std::pow(10.0, i);
  const auto reference = make_reference_ops();
  const auto onednn = make_onednn_ops(1);
  for (const Function& function : known_functions) {
    SCOPED_TRACE(text_of(Pointwise{.kind = function.kind}));
    for (Ops* ops : {reference.get(), onednn.get()}) {
      const Computed computed = compute<float>(*ops, DType::float32, function.kind, far);
      for (std::size_t i = 0; i < function_points; ++i) {
        EXPECT_TRUE(std::isfinite(computed.values[i])) << "of " << far[i];
        EXPECT_TRUE(std::isfinite(computed.derivatives[i])) << "derivative at " << far[i];
      }
    }
  }
}

TEST(PointwiseFunctions, OfNotANumberIsNotANumberInTheReference) {
  Points nan{};
  nan.fill(std::numeric_limits<double>::quiet_NaN());
  const auto reference = make_reference_ops();
  for (const Function& function : known_functions)
    EXPECT_TRUE(std::isnan(compute<double>(*reference, DType::float64, function.kind, nan).values[0]))
        << text_of(Pointwise{.kind = function.kind});
}

}  // namespace
}  // namespace lockstep::ops::test
