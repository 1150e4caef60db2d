// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.hpp"

namespace lockstep::ops::test {

const std::vector<Row>& rows() {
  static const std::vector<Row> rows = {
      // Convolutions of lenet, of ResNets at CIFAR's and ImageNet's stems, and what does not fill vectors.
      {"conv-1x1", Convolution{.out_channels = 64, .kernel = 1}, {{3, 32, 8, 8}}},
      {"conv-1x1-stride", Convolution{.out_channels = 32, .kernel = 1, .stride = 2, .bias = false}, {{1, 16, 9, 7}}},
      {"conv-3x3", Convolution{.out_channels = 32, .padding = 1}, {{3, 1, 28, 28}}},
      {"conv-3x3-relu", Convolution{.out_channels = 16, .padding = 1, .activation = Activation::relu}, {{1, 3, 6, 5}}},
      {"conv-3x3-stride", Convolution{.out_channels = 16, .stride = 2, .padding = 1, .bias = false}, {{1, 16, 16, 16}}},
      {"conv-3x3-odd", Convolution{.out_channels = 7, .padding = 1}, {{5, 3, 11, 6}}},
      {"conv-5x5", Convolution{.out_channels = 6, .kernel = 5, .padding = 2}, {{2, 3, 12, 9}}},
      {"conv-7x7-stem",
       Convolution{.out_channels = 16, .kernel = 7, .stride = 2, .padding = 3, .bias = false},
       {{1, 3, 32, 32}}},
      {"conv-small", Convolution{.out_channels = 2, .kernel = 2, .padding = 3}, {{1, 2, 3, 3}}},
      {"batch-norm", BatchNorm{}, {{3, 5, 4, 3}}},
      {"batch-norm-relu", BatchNorm{.activation = Activation::relu}, {{4, 16, 8, 8}}},
      {"relu", Relu{}, {{3, 17, 5, 4}}},
      {"max-pool", MaxPool{}, {{3, 16, 8, 8}}},
      {"max-pool-overlapping", MaxPool{.kernel = 3, .stride = 2}, {{1, 5, 9, 7}}},
      {"average-pool", AveragePool{}, {{3, 16, 8, 6}}},
      {"average-pool-global", AveragePool{.kernel = 8, .stride = 8}, {{5, 64, 8, 8}}},
      {"linear", Linear{.out_features = 10}, {{3, 64, 1, 1}}},
      {"linear-of-images", Linear{.out_features = 12, .activation = Activation::relu}, {{1, 16, 7, 7}}},
      {"add", Add{}, {{3, 16, 5, 5}, {3, 16, 5, 5}}},
      {"add-relu", Add{.activation = Activation::relu}, {{1, 7, 3, 4}, {1, 7, 3, 4}}},
      {"dropout", Dropout{.probability = 0.3, .key = 11}, {{3, 16, 5, 4}}, {}, 3, false},
      {"cross-entropy", CrossEntropy{}, {{5, 10, 1, 1}, {5, 1, 1, 1}}, {}, 10},
      {"cross-entropy-pixels", CrossEntropy{.ignore_index = 2}, {{2, 4, 3, 5}, {2, 1, 3, 5}}, {}, 4},
  };
  return rows;
}

}  // namespace lockstep::ops::test
