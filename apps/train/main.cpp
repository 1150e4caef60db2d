// SPDX-License-Identifier: Apache-2.0
// train trains a CNN on all ranks of the job.
#include "lockstep/train.hpp"

int main(int argc, char** argv) { return lockstep::train_main(argc, argv); }
